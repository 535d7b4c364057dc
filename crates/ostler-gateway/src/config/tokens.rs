//! Bearer tokens for HTTP clients, in addition to the gateway's own token.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

use jsonc_parser::ast::Value;
use jsonc_parser::common::{Range, Ranged};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::form::{QuotasForm, TokenForm};
use super::reader::{Reader, Setting, name_of};
use super::resolve::{Disabled, check};
use super::template::{Filling, Template};
use crate::agents::{self, LONGEST_NAME};
use crate::environment::{Environment, Names};
use crate::quota::{LEAST_BYTES, MOST_BYTES, MOST_SESSIONS, QuotaLimits};
use crate::token::{self, TokenError};

/// Allowed range of `waitingBytes`.
const WAITING_BYTES: RangeInclusive<u64> = LEAST_BYTES as u64..=MOST_BYTES as u64;

/// Tokens by name.
#[derive(Debug, Default)]
pub(super) struct TokensForm(Vec<(String, Range, TokenForm)>);

/// A configured token with an unfilled template.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenEntry {
    /// Name of the token in the configuration.
    pub name: String,
    /// The secret.
    pub token: Template,
    /// Agent that clients with this token belong to.
    pub agent: Option<String>,
    /// Servers that these clients may use; `None` for all.
    pub servers: Option<Names>,
    /// Quotas of these clients together.
    pub limits: QuotaLimits,
}

impl TokenEntry {
    /// The secret, filled in from the gateway's environment.
    pub fn secret(&self, environment: &Environment) -> Result<String, UnusableToken> {
        let mut filling = Filling::new(environment, Path::new("/"));
        let secret = self.token.fill(&mut filling).into_string();
        check(filling)?;
        let secret = secret.map_err(|_| TokenError::Unfit)?;
        token::check(&secret)?;
        Ok(secret)
    }
}

/// Why a token is unusable.
#[derive(Debug, thiserror::Error)]
pub enum UnusableToken {
    /// A variable of the token is not set.
    #[error(transparent)]
    Unfilled(#[from] Disabled),
    /// The token is too weak, or can't be sent in a header.
    #[error(transparent)]
    Unfit(#[from] TokenError),
}

/// Validates the tokens of a file.
pub(super) fn settle(form: TokensForm, reader: &mut Reader<'_>) -> Vec<TokenEntry> {
    reader.within("tokens", |reader| {
        let settled = |(name, key, form): (String, Range, TokenForm)| {
            reader.within(&name.clone(), |reader| one(name, key, form, reader))
        };
        form.0.into_iter().filter_map(settled).collect()
    })
}

fn one(name: String, key: Range, form: TokenForm, reader: &mut Reader<'_>) -> Option<TokenEntry> {
    if let Some(agent) = form.agent.as_ref().filter(|agent| !agents::is_name(&agent.value)) {
        let message = format!("an agent's name has 1 to {LONGEST_NAME} characters");
        reader.within("agent", |reader| reader.wrong_word(agent.range, &message));
    }
    let Some(token) = form.token else {
        reader.wrong_word(key, "it has no `token`");
        return None;
    };
    let is_unfit = |text: &str| token::check(text).is_err();
    if token.value.is_literal() && token.value.beginning().is_some_and(is_unfit) {
        let message = TokenError::Unfit.to_string();
        reader.within("token", |reader| reader.wrong(token.range, &message));
    }
    let agent = form.agent.map(|at| at.value);
    let servers = form.servers.map(|at| at.value.into_iter().collect());
    let limits = form.limits.map(|at| at.value).unwrap_or_default();
    let limits = reader.within("limits", |reader| quotas(&limits, reader));
    Some(TokenEntry { name, token: token.value, agent, servers, limits })
}

fn quotas(form: &QuotasForm, reader: &mut Reader<'_>) -> QuotaLimits {
    if let Some(sessions) = form.sessions.as_ref().filter(|at| at.value.get() > MOST_SESSIONS) {
        let message = format!("the gateway has at most {MOST_SESSIONS} sessions");
        reader.within("sessions", |reader| reader.wrong_word(sessions.range, &message));
    }
    let waiting = form.waiting_bytes.as_ref().map(|at| (at.range, at.value.0.0.get()));
    if let Some((range, _)) = waiting.filter(|(_, bytes)| !WAITING_BYTES.contains(bytes)) {
        let message = format!("write {LEAST_BYTES} to {MOST_BYTES} bytes, as 64KiB to 192MiB");
        reader.within("waitingBytes", |reader| reader.wrong_word(range, &message));
    }
    QuotaLimits {
        sessions: form.sessions.as_ref().map(|at| at.value.get()),
        requests: form.requests.as_ref().map(|at| at.value.get()),
        requests_per_minute: form.requests_per_minute.as_ref().map(|at| at.value.get()),
        waiting_bytes: waiting.and_then(|(_, bytes)| bytes.try_into().ok()),
    }
}

impl Setting for TokensForm {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let mut tokens = Vec::new();
        for property in reader.properties(value)? {
            let name = name_of(property);
            let form = reader.within(name, |reader| TokenForm::read(&property.value, reader));
            tokens.extend(form.map(|form| (name.to_owned(), property.name.range(), form)));
        }
        Some(Self(tokens))
    }
}

impl JsonSchema for TokensForm {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Tokens".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, TokenForm>::json_schema(generator)
    }
}
