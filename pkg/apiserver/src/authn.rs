//! Authentication: client certificates, the front proxy's headers, bearer tokens, anonymous; then impersonation.
//!
//! Order as upstream: request header, client certificate, bearer token. A credential that is given and wrong is
//! 401, never anonymous.

use std::sync::Arc;

use copepod_api::{ApiError, ApiResult};
use http::{HeaderMap, header};

use crate::reader::Reader;
use crate::user::{self, Identity as _, UserInfo};

pub(crate) mod bootstrap_token;
pub(crate) mod certificate;
pub(crate) mod impersonation;
pub(crate) mod request_header;
pub(crate) mod service_account;
pub(crate) mod static_token;

use certificate::PeerIdentity;
use request_header::RequestHeader;
use service_account::TokenAuthority;
use static_token::StaticTokens;

/// What is no token at all.
pub(crate) const NO_TOKEN: &str = "token is not recognised";

/// All ways to tell who sends a request.
#[derive(Debug)]
pub(crate) struct Authenticator {
    /// The front proxy's header names.
    pub request_header: RequestHeader,
    /// ServiceAccount tokens.
    pub tokens: Arc<TokenAuthority>,
    /// `--token-auth-file`.
    pub static_tokens: StaticTokens,
    /// Reads bootstrap tokens, where they are enabled.
    pub bootstrap_tokens: Option<Reader>,
    /// `--anonymous-auth`.
    pub anonymous: bool,
}

impl Authenticator {
    /// The user of a request, from what the TLS peer proved and the headers say.
    pub(crate) async fn authenticate(&self, peer: &PeerIdentity, headers: &HeaderMap) -> ApiResult<UserInfo> {
        if let Some(user) = self.request_header.user(peer, headers) {
            return Ok(user.into_authenticated());
        }
        match peer {
            PeerIdentity::Client(client) if client.valid_now() => {
                return Ok(client.user.clone().into_authenticated());
            }
            PeerIdentity::None | PeerIdentity::FrontProxy(_) => {}
            PeerIdentity::Client(_) | PeerIdentity::Refused => return Err(ApiError::unauthorized()),
        }
        if let Some(token) = bearer(headers) {
            return self
                .token_for(&token, &[])
                .await
                .map(|(user, _)| user)
                .map_err(|_| ApiError::unauthorized());
        }
        if self.anonymous && !headers.contains_key(header::AUTHORIZATION) {
            return Ok(user::anonymous());
        }
        Err(ApiError::unauthorized())
    }

    /// The user of a bearer token and the audiences both sides share; `audiences` empty means the server's own.
    pub(crate) async fn token_for(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<(UserInfo, Vec<String>), String> {
        if let Some(user) = self.static_tokens.user(token) {
            return Ok((user.into_authenticated(), audiences.to_vec()));
        }
        if let Some(reader) = &self.bootstrap_tokens
            && let Some(user) = bootstrap_token::user(reader, token).await
        {
            return Ok((user.into_authenticated(), audiences.to_vec()));
        }
        let (user, audiences) = self.tokens.authenticate(token, audiences).await?;
        Ok((user.into_authenticated(), audiences))
    }
}

/// The bearer token of the headers; also from the WebSocket sub-protocol that browsers must use instead.
fn bearer(headers: &HeaderMap) -> Option<String> {
    if let Some(value) = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()) {
        let (scheme, token) = value.trim().split_once(' ')?;
        let token = token.trim();
        return (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.to_owned());
    }
    let protocols = headers.get(header::SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
    let encoded =
        protocols.split(',').find_map(|p| p.trim().strip_prefix("base64url.bearer.authorization.k8s.io."))?;
    let decoded = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, encoded).ok()?;
    String::from_utf8(decoded).ok()
}
