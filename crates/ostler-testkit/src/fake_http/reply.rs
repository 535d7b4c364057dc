//! Scripted responses of the fake HTTP server.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::channel::Channel;
use hyper::Response;
use serde_json::Value;
use tokio::sync::broadcast;

/// Time for the connection to flush.
const FLUSHED: Duration = Duration::from_millis(20);

/// Part of a response body.
#[derive(Clone, Debug)]
pub enum Part {
    /// Data to send.
    Text(String),
    /// A pause.
    Pause(Duration),
    /// Breaks the connection.
    Cut,
    /// Stays open and sends what the test pushes.
    Live,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    parts: Vec<Part>,
}

#[derive(Debug, thiserror::Error)]
#[error("cut")]
pub(super) struct Cut;

pub(super) type Body = Channel<Bytes, Cut>;

impl Reply {
    /// Status without a body.
    pub fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), parts: Vec::new() }
    }

    /// JSON body.
    pub fn json(value: &Value) -> Self {
        Self::status(200)
            .with("content-type", "application/json")
            .and(Part::Text(value.to_string()))
    }

    /// Event stream that ends after these parts.
    pub fn stream(parts: impl IntoIterator<Item = Part>) -> Self {
        let mut reply = Self::status(200).with("content-type", "text/event-stream");
        reply.parts.extend(parts);
        reply
    }

    /// With another status.
    #[must_use]
    pub fn as_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// With a further header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a further part.
    #[must_use]
    pub fn and(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    pub(super) fn response(self, live: &broadcast::Sender<String>) -> Response<Body> {
        let (mut sender, body) = Channel::new(16);
        let mut response = Response::builder().status(self.status);
        for (name, value) in &self.headers {
            response = response.header(name, value);
        }
        let mut pushed = live.subscribe();
        let is_live = self.parts.iter().any(|part| matches!(part, Part::Live));
        if !is_live {
            pushed = broadcast::Sender::new(1).subscribe();
        }
        tokio::spawn(async move {
            for part in self.parts {
                match part {
                    Part::Text(text) => drop(sender.send_data(text.into()).await),
                    Part::Pause(time) => tokio::time::sleep(time).await,
                    Part::Cut => {
                        // Earlier parts are flushed by then.
                        tokio::time::sleep(FLUSHED).await;
                        return sender.abort(Cut);
                    }
                    Part::Live => {
                        while let Ok(text) = pushed.recv().await {
                            if sender.send_data(text.into()).await.is_err() {
                                return;
                            }
                        }
                    }
                }
            }
        });
        response.body(body).expect("an answer")
    }
}

impl Part {
    /// Event with a message.
    pub fn event(message: &Value) -> Self {
        Self::Text(format!("data: {message}\n\n"))
    }

    /// Event with a message and an id.
    pub fn event_with_id(id: &str, message: &Value) -> Self {
        Self::Text(format!("id: {id}\ndata: {message}\n\n"))
    }
}
