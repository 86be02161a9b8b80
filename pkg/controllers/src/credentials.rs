//! Each controller as its own ServiceAccount: one anonymous connection, one short-lived token per controller.

use std::time::Duration;

use copepod_client::resources::SERVICE_ACCOUNTS;
use copepod_client::{BearerSlot, Client, ClientConfig, ClientError, chain, config::Identity};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "kube-system";
/// Lifetime asked for; the token is replaced after four fifths of what was granted.
const LIFETIME: u64 = 3600;
const RETRY: Duration = Duration::from_millis(500);

/// Makes clients that act as ServiceAccounts.
#[derive(Debug)]
pub(crate) struct Credentials {
    /// The controller-manager's own client, which asks for tokens.
    root: Client,
    anonymous: Client,
}

impl Credentials {
    pub(crate) fn new(root: &Client, config: &ClientConfig) -> Result<Self, ClientError> {
        let config = ClientConfig { identity: Identity::Anonymous, ..config.clone() };
        Ok(Self { root: root.clone(), anonymous: Client::new(&config)? })
    }

    /// A client that acts as `account`; returns once its first token is there, or at shutdown.
    pub(crate) async fn client_for(&self, account: &'static str, stop: &CancellationToken) -> Client {
        let (client, slot) = self.anonymous.with_bearer();
        let (root, stop) = (self.root.clone(), stop.clone());
        let mut pause = turn(&root, account, &slot).await;
        while pause == RETRY && !stop.is_cancelled() {
            tokio::time::sleep(RETRY).await;
            pause = turn(&root, account, &slot).await;
        }
        copepod_supervisor::spawn("credentials", async move {
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = turn(&root, account, &slot).await;
            }
        });
        client
    }
}

/// One attempt to get a token; how long to wait for the next.
async fn turn(root: &Client, account: &str, slot: &BearerSlot) -> Duration {
    match renew(root, account, slot).await {
        Ok(granted) => Duration::from_secs(granted * 4 / 5),
        Err(error) => {
            tracing::debug!(account, error = chain(&error), "no token yet");
            RETRY
        }
    }
}

/// Gets a token, making the account when there is none; the seconds it is good for.
async fn renew(root: &Client, account: &str, slot: &BearerSlot) -> Result<u64, ClientError> {
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": LIFETIME},
    });
    let target = SERVICE_ACCOUNTS.object(NAMESPACE, account).subresource("token");
    let answer: Value = match root.create(&target, &request).await {
        Err(error) if error.not_found() => {
            let body = json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": account, "namespace": NAMESPACE},
            });
            let made = root.create::<Value>(&SERVICE_ACCOUNTS.collection(NAMESPACE), &body).await;
            if let Err(error) = made
                && !error.is_already_exists()
            {
                return Err(error);
            }
            root.create(&target, &request).await?
        }
        other => other?,
    };
    let token = answer.pointer("/status/token").and_then(Value::as_str).unwrap_or_default();
    slot.set(token)?;
    Ok(answer.pointer("/spec/expirationSeconds").and_then(Value::as_u64).unwrap_or(LIFETIME))
}
