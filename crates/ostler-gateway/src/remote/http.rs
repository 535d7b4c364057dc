//! HTTP client for remote servers, with a connection pool for each conversation.
//!
//! A `Way` holds the settings that all conversations with one server share: proxies, TLS configuration and limits.
//! `Way::open` creates an `Http` with a pool of its own, so that closing one conversation closes its connections and no
//! others.
//!
//! Redirects are followed only within the same origin, because requests carry credentials; a redirect to another origin
//! is an error that names the origin. 301, 302 and 303 are followed only for GET: by convention, they turn a
//! POST into a GET and drop its body.

use std::error::Error;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, LOCATION, PROXY_AUTHORIZATION};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioTimer;
use tokio::sync::OnceCell;
use tokio_rustls::rustls::ClientConfig;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::address::Address;
use super::dial::Dialler;
use super::limits::RemoteLimits;
use super::surroundings::Surroundings;
use crate::reason::why;

/// Connection settings shared by all conversations with one server.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    surroundings: Arc<Surroundings>,
    /// TLS configuration, created on first use. It also caches TLS sessions, which speeds up later handshakes.
    tls: Arc<OnceCell<Arc<ClientConfig>>>,
    pub(super) limits: RemoteLimits,
}

/// HTTP client of one conversation with its connection pool.
#[derive(Clone, Debug)]
pub(super) struct Http {
    client: Client<Dialler, Full<Bytes>>,
    way: Way,
    tasks: Tasks,
}

/// The tasks that drive connections.
#[derive(Clone, Debug, Default)]
struct Tasks {
    all: TaskTracker,
    end: CancellationToken,
}

/// A request to send.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) method: Method,
    pub(super) to: Address,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Why a request got no usable response.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error("{0}")]
    Unreachable(String),
    #[error("it redirects to {0}; change its url if that is right")]
    Elsewhere(String),
    #[error("it redirects too often")]
    Lost,
    #[error("its response has more than {0} bytes")]
    Long(usize),
}

impl Way {
    pub(super) fn new(surroundings: Surroundings, limits: RemoteLimits) -> Self {
        Self { surroundings: Arc::new(surroundings), tls: Arc::default(), limits }
    }

    pub(super) fn said(&self) -> impl Iterator<Item = &str> {
        self.surroundings.said()
    }

    pub(super) fn open(&self) -> Http {
        let tasks = Tasks::default();
        let dialler = Dialler {
            surroundings: Arc::clone(&self.surroundings),
            tls: Arc::clone(&self.tls),
            limit: self.limits.connect,
        };
        // The client retries only requests that the connection hands back unsent.
        let client = Client::builder(tasks.clone())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(self.limits.idle)
            .build(dialler);
        Http { client, way: self.clone(), tasks }
    }
}

impl Http {
    /// Sends a request, following redirects within the same origin.
    pub(super) async fn ask(
        &self,
        mut question: Question,
    ) -> Result<Response<Incoming>, HttpError> {
        for _ in 0..=self.way.limits.redirects {
            let answer = self.client.request(self.request(&question)).await;
            let answer = answer.map_err(|error| HttpError::Unreachable(reason(&error)))?;
            let Some(next) = redirect(&question, &answer)? else { return Ok(answer) };
            question.to = next;
        }
        Err(HttpError::Lost)
    }

    fn request(&self, question: &Question) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(question.body.clone()));
        *request.method_mut() = question.method.clone();
        *request.uri_mut() = question.to.uri().clone();
        *request.headers_mut() = question.headers.clone();
        // For HTTPS the proxy got its credentials with CONNECT already.
        if !question.to.is_secure()
            && let Some(proxy) = self.way.surroundings.proxy(question.to.uri())
            && let Some(credentials) = proxy.basic_auth()
        {
            request.headers_mut().insert(PROXY_AUTHORIZATION, credentials.clone());
        }
        request
    }

    /// Closes all connections without waiting for their tasks.
    pub(super) fn cut(&self) {
        self.tasks.end.cancel();
    }

    /// Closes all connections and waits for their tasks to end.
    pub(super) async fn close(self) {
        self.cut();
        self.tasks.all.close();
        drop(self.client);
        self.tasks.all.wait().await;
    }
}

/// Target of a redirect, which must have the same origin. `None` if the response is no redirect to follow.
fn redirect(
    question: &Question,
    answer: &Response<Incoming>,
) -> Result<Option<Address>, HttpError> {
    let leads = match answer.status() {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => {
            question.method == Method::GET
        }
        _ => false,
    };
    let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let Some(location) = location.filter(|_| leads) else { return Ok(None) };
    let next = question.to.join(location).map_err(|_| HttpError::Lost)?;
    if next.origin() == question.to.origin() {
        Ok(Some(next))
    } else {
        Err(HttpError::Elsewhere(next.origin()))
    }
}

/// Reads a body of at most `limit` bytes.
pub(super) async fn whole(mut body: Incoming, limit: usize) -> Result<Bytes, HttpError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| HttpError::Unreachable(why(&error)))?;
        let data = frame.into_data().unwrap_or_default();
        if bytes.len() + data.len() > limit {
            return Err(HttpError::Long(limit));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.into())
}

/// The cause of a client error, without the library's own message in front of it.
fn reason(error: &hyper_util::client::legacy::Error) -> String {
    error.source().map_or_else(|| error.to_string(), why)
}

impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for Tasks {
    fn execute(&self, carry: F) {
        let end = self.end.clone();
        self.all.spawn(async move { end.run_until_cancelled(carry).await.is_some() });
    }
}
