//! Which request gets which answer.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    HeaderName, HeaderValue, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use lineway_actors::registry::LineId;
use serde::Serialize;
use tokio::time::timeout;

use super::body::Answer;
use super::guard::{self, Arrival};
use super::json::{self, LinesPage};
use super::negotiate::Format;
use super::nodes;
use super::query::LinesQuery;
use super::reserve::Reserve;
use super::sip::{self, SipQuery};
use super::sockets::{self, SocketsQuery};
use super::{CloseOutcome, Context, NotReady};

/// The longest body of a request that has one.
const MAX_BODY: usize = 4096;
/// How long the body of a request may take.
const BODY_TIME: Duration = Duration::from_secs(5);
/// How long a line may take to be told that it is to end.
const CLOSE_TIME: Duration = Duration::from_secs(5);

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; object-src 'none'";
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// What the answers are made from.
pub(super) struct Site {
    pub(super) context: Context,
    /// Descriptors for the moment in which the metrics are written.
    pub(super) spare: Reserve,
}

/// A path that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route<'a> {
    Page(&'static Asset),
    Metrics,
    Alive,
    Ready,
    Lines,
    Nodes,
    Sockets,
    Sip,
    Close(&'a str),
}

/// A file of the status page.
#[derive(Debug, PartialEq, Eq)]
struct Asset {
    path: &'static str,
    content_type: &'static str,
    text: &'static str,
}

static ASSETS: [Asset; 4] = [
    Asset {
        path: "/",
        content_type: "text/html; charset=utf-8",
        text: include_str!("page/index.html"),
    },
    Asset {
        path: "/page.css",
        content_type: "text/css; charset=utf-8",
        text: include_str!("page/page.css"),
    },
    Asset {
        path: "/page.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("page/page.js"),
    },
    Asset { path: "/icon.svg", content_type: "image/svg+xml", text: include_str!("page/icon.svg") },
];

impl<'a> Route<'a> {
    fn of(path: &'a str) -> Option<Self> {
        Some(match path {
            "/metrics" => Self::Metrics,
            "/healthz" => Self::Alive,
            "/readyz" => Self::Ready,
            "/api/lines" => Self::Lines,
            "/api/nodes" => Self::Nodes,
            "/api/sockets" => Self::Sockets,
            "/api/sip" => Self::Sip,
            _ => {
                let line = path.strip_prefix("/api/lines/").and_then(|p| p.strip_suffix("/close"));
                match line {
                    Some(id) if !id.is_empty() && !id.contains('/') => Self::Close(id),
                    _ => Self::Page(ASSETS.iter().find(|asset| asset.path == path)?),
                }
            }
        })
    }

    fn allows(self, method: &Method) -> bool {
        match self {
            Self::Close(_) => method == Method::POST,
            _ => method == Method::GET || method == Method::HEAD,
        }
    }

    const fn allowed(self) -> &'static str {
        match self {
            Self::Close(_) => "POST",
            _ => "GET, HEAD",
        }
    }
}

/// Answers one request.
pub(super) async fn answer<B>(
    request: Request<B>,
    site: &Site,
    arrival: Arrival,
) -> Response<Answer>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let mut response = match guard::check(&request, arrival) {
        Ok(()) => route(request, &path, site).await,
        Err((status, text)) => error(&path, status, text),
    };
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    tracing::debug!(%method, ?path, status = response.status().as_u16(), "admin request");
    response
}

async fn route<B>(request: Request<B>, path: &str, site: &Site) -> Response<Answer>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let context = &site.context;
    let Some(route) = Route::of(path) else {
        return error(path, StatusCode::NOT_FOUND, "there is nothing here");
    };
    if !route.allows(request.method()) {
        let text = format!("only {} here", route.allowed());
        let mut response = error(path, StatusCode::METHOD_NOT_ALLOWED, &text);
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(route.allowed()));
        return response;
    }
    match route {
        Route::Page(asset) => page(asset),
        Route::Metrics => {
            let format = Format::preferred(request.headers());
            let text = site.spare.during(|| (context.metrics)(format));
            let mut response = whole(StatusCode::OK, format.content_type(), text);
            response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
            response
        }
        Route::Alive => match (context.live)() {
            Ok(()) => whole(StatusCode::OK, TEXT, "ok\n"),
            Err(still) => unavailable(still.into_iter()),
        },
        Route::Ready => match (context.ready)() {
            Ok(()) => whole(StatusCode::OK, TEXT, "ready\n"),
            Err(not_ready) => {
                unavailable(not_ready.into_iter().map(|NotReady { node, reason }| {
                    format!("{}: {reason}", node.as_deref().unwrap_or("service"))
                }))
            }
        },
        Route::Lines => match LinesQuery::parse(request.uri().query().unwrap_or_default()) {
            Ok(query) => {
                let lines = Answer::lines(LinesPage::of(&context.registry, &query));
                respond(StatusCode::OK, JSON, lines)
            }
            Err(text) => error(path, StatusCode::BAD_REQUEST, &text),
        },
        Route::Nodes => whole(StatusCode::OK, JSON, nodes::document_of(context)),
        Route::Sockets => match SocketsQuery::parse(request.uri().query().unwrap_or_default()) {
            Ok(query) => {
                let sockets = sockets::document_of(&context.registry, &query);
                whole(StatusCode::OK, JSON, sockets)
            }
            Err(text) => error(path, StatusCode::BAD_REQUEST, &text),
        },
        Route::Sip => match SipQuery::parse(request.uri().query().unwrap_or_default()) {
            Ok(query) => {
                whole(StatusCode::OK, JSON, sip::document_of(&context.registry, query).await)
            }
            Err(text) => error(path, StatusCode::BAD_REQUEST, &text),
        },
        Route::Close(id) => match read(request).await {
            Ok(()) => close(id, path, context).await,
            Err((status, text)) => {
                let mut response = error(path, status, text);
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                response
            }
        },
    }
}

fn page(asset: &'static Asset) -> Response<Answer> {
    let mut response = whole(StatusCode::OK, asset.content_type, asset.text);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Takes the body of a request, which means nothing, within its limits.
async fn read<B>(request: Request<B>) -> Result<(), (StatusCode, &'static str)>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let too_long = (StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than 4096 bytes");
    let announced =
        request.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: u64| length > MAX_BODY as u64) {
        return Err(too_long);
    }
    match timeout(BODY_TIME, Limited::new(request.into_body(), MAX_BODY).collect()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_long),
        Ok(Err(_)) => Err((StatusCode::BAD_REQUEST, "the body is not whole")),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the body takes too long")),
    }
}

#[derive(Serialize)]
struct Closing<'a> {
    id: &'a str,
    result: &'static str,
}

async fn close(id: &str, path: &str, context: &Context) -> Response<Answer> {
    let line: LineId = match id.parse() {
        Ok(line) => line,
        Err(wrong) => return error(path, StatusCode::BAD_REQUEST, &format!("{wrong}")),
    };
    let outcome = timeout(CLOSE_TIME, (context.close)(line)).await;
    match outcome.unwrap_or(CloseOutcome::Unavailable) {
        CloseOutcome::Accepted => {
            tracing::info!(line = %line, "line closed by the admin interface");
            let id = line.to_string();
            let document = json::document(&Closing { id: &id, result: "closing" });
            whole(StatusCode::ACCEPTED, JSON, document)
        }
        CloseOutcome::Unknown => {
            error(path, StatusCode::NOT_FOUND, &format!("there is no line {line}"))
        }
        CloseOutcome::Unavailable => {
            let text = "the line could not be told; the service may be stopping";
            error(path, StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }
}

fn respond(status: StatusCode, content_type: &'static str, answer: Answer) -> Response<Answer> {
    let mut response = Response::new(answer);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn whole(
    status: StatusCode,
    content_type: &'static str,
    bytes: impl Into<Bytes>,
) -> Response<Answer> {
    respond(status, content_type, Answer::whole(bytes))
}

/// 503 with one line for each text; what would break a line in two is escaped.
fn unavailable(texts: impl Iterator<Item = String>) -> Response<Answer> {
    let mut body = String::new();
    for text in texts {
        for c in text.chars() {
            if c.is_control() {
                // Writing to a string does not fail.
                let _ = write!(body, "{}", c.escape_default());
            } else {
                body.push(c);
            }
        }
        body.push('\n');
    }
    whole(StatusCode::SERVICE_UNAVAILABLE, TEXT, body)
}

#[derive(Serialize)]
struct Problem<'a> {
    error: &'a str,
}

/// A refusal: JSON below `/api`, plain text elsewhere.
fn error(path: &str, status: StatusCode, text: &str) -> Response<Answer> {
    if path == "/api" || path.starts_with("/api/") {
        whole(status, JSON, json::document(&Problem { error: text }))
    } else {
        whole(status, TEXT, format!("{text}\n"))
    }
}
