//! HTTP+SSE transport, of protocol versions before 2025-03-26.
//!
//! The client opens one event stream. Its `endpoint` event names the address for POST requests, and all responses
//! arrive on the stream.

use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::events::Events;
use super::failure::Failure;
use super::link::Link;

/// Opens the event stream and reads it up to the `endpoint` event. Returns the rest of the stream.
pub(super) async fn open(link: &Link) -> Result<(Incoming, Events), Failure> {
    let mut body = link.stream(None).await?;
    let mut events = Events::new(link.limits.message);
    while let Some(Ok(frame)) = body.frame().await {
        let mut endpoint = None;
        let data = frame.into_data().unwrap_or_default();
        let fed = events.feed(&data, |event| {
            if event.name == b"endpoint" {
                endpoint = Some(event.data);
            }
        });
        fed.map_err(|_| Failure::Long(link.limits.message))?;
        if let Some(endpoint) = endpoint {
            accept(link, &endpoint)?;
            return Ok((body, events));
        }
    }
    Err(Failure::NoMessage("a stream without an endpoint".into()))
}

/// Accepts an endpoint on the server's own origin only, because requests to it carry credentials.
fn accept(link: &Link, endpoint: &[u8]) -> Result<(), Failure> {
    let text = String::from_utf8_lossy(endpoint);
    let address = link.address.join(text.trim());
    let address = address.map_err(|error| Failure::NoMessage(error.to_string()))?;
    if address.origin() != link.address.origin() {
        return Err(Failure::Endpoint(address.origin()));
    }
    let _ = link.state.endpoint.set(address);
    Ok(())
}
