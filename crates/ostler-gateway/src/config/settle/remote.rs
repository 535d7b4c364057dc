//! Checks the keys of a remote server and builds its entry.

use std::path::Path;

use jsonc_parser::common::Range;

use crate::config::entry::{OAuth, PinnedIssuer, Remote};
use crate::config::form::{OAuthForm, ServerForm};
use crate::config::reader::{At, Reader};
use crate::config::template::Template;
use crate::config::words::Transport;
use crate::remote::Carrier;

/// Message for a client secret without an issuer.
const NO_ISSUER: &str = "write `issuer` beside it: the url of the authorization server that this secret is for, and the only one that gets it";

pub(super) fn remote(
    form: ServerForm,
    directory: &Path,
    reader: &mut Reader<'_>,
) -> Option<Remote> {
    for key in process_keys(&form) {
        reader.wrong_key(key, "is for servers with a `command`, and this one has a `url`");
    }
    let url = form.url?;
    check_scheme(&url, reader);
    check_user(&url, reader);
    let carrier = match form.transport.map(|at| (at.value, at.range)) {
        None if form.adopted.is_http => Carrier::Http,
        None => Carrier::Any,
        Some((Transport::Http, _)) => Carrier::Http,
        Some((Transport::Sse, _)) => Carrier::Sse,
        Some((Transport::Stdio, range)) => {
            reader.wrong_word(range, "a server with a `url` is not reached by stdio");
            Carrier::Any
        }
    };
    let mut headers = form.headers.map(|at| at.value.0).unwrap_or_default();
    for (key, name, value) in form.adopted.headers {
        if headers.insert(name, value).is_some() {
            reader.wrong_key(key, "another key sets this already");
        }
    }
    if let Some(file) = &form.bearer_token_file
        && headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
    {
        reader.wrong_key(file.key, "another key sets this already");
    }
    Some(Remote {
        url: url.value,
        headers,
        token_file: form.bearer_token_file.map(|at| at.value),
        directory: directory.to_owned(),
        oauth: form
            .oauth
            .map(|at| reader.within("oauth", |reader| oauth(at.value, reader)))
            .unwrap_or_default(),
        carrier,
    })
}

fn check_scheme(url: &At<Template>, reader: &mut Reader<'_>) {
    let has_scheme = |text: &str| text.starts_with("http://") || text.starts_with("https://");
    if url.value.beginning().is_some_and(|beginning| !has_scheme(beginning)) {
        reader.wrong(url.range, "its url must begin with http:// or https://");
    }
}

/// Rejects a user name and password in a URL: ostler would not send them, and would show them with the URL.
fn check_user(url: &At<Template>, reader: &mut Reader<'_>) {
    let text = url.value.literals();
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        let message = "a user and password in a url are refused; put credentials into `headers`";
        reader.wrong(url.range, message);
    }
}

fn oauth(form: OAuthForm, reader: &mut Reader<'_>) -> OAuth {
    match (&form.issuer, &form.client_secret) {
        (Some(issuer), _) => reader.within("issuer", |reader| check_scheme(issuer, reader)),
        // A remote server can name any issuer, so it must not choose the one that gets the secret.
        (None, Some(secret)) => reader.wrong_key(secret.key, NO_ISSUER),
        (None, None) => {}
    }
    let client_secret = form.client_secret.map(|at| at.value);
    OAuth {
        client_id: form.client_id.map(|at| at.value),
        issuer: form.issuer.map(|at| PinnedIssuer { name: at.value, client_secret }),
        scopes: form.scopes.map(|at| at.value),
        callback_port: form.callback_port.map(|at| at.value.get()),
    }
}

/// Ranges of keys that apply only to local processes.
fn process_keys(form: &ServerForm) -> impl Iterator<Item = Range> {
    let keys = [
        form.args.as_ref().map(|at| at.key),
        form.env.as_ref().map(|at| at.key),
        form.env_file.as_ref().map(|at| at.key),
        form.cwd.as_ref().map(|at| at.key),
        form.inherit_env.as_ref().map(|at| at.key),
        form.adopted.inherit.as_ref().map(|at| at.key),
        form.limits.as_ref().map(|at| at.key),
        form.engine.as_ref().map(|at| at.key),
        form.containment.as_ref().map(|at| at.key),
        form.grace.as_ref().map(|at| at.key),
    ];
    keys.into_iter().flatten()
}
