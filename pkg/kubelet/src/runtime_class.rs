//! Which runtime handler a pod's RuntimeClass names.

use copepod_client::{Client, resources::RUNTIME_CLASSES};
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;

use crate::pod::PodExt;
use crate::ports::SetupError;

/// Looks RuntimeClasses up in the API server.
#[derive(Debug, Clone)]
pub struct RuntimeClasses {
    client: Option<Client>,
}

#[derive(Debug, Deserialize)]
struct ClassView {
    handler: String,
}

impl RuntimeClasses {
    /// Without a client only pods that name no class can run.
    #[must_use]
    pub fn new(client: Option<Client>) -> Self {
        Self { client }
    }

    /// The handler; empty is the runtime's default.
    ///
    /// # Errors
    /// When the class does not exist or cannot be asked for.
    pub async fn handler(&self, pod: &Pod) -> Result<String, SetupError> {
        let Some(name) = pod.spec().runtime_class_name.as_deref().filter(|n| !n.is_empty()) else {
            return Ok(String::new());
        };
        let Some(client) = &self.client else {
            return Err(SetupError::Config(format!("RuntimeClass {name:?}: no API server is configured")));
        };
        match client.get::<ClassView>(&RUNTIME_CLASSES.object("", name)).await {
            Ok(class) => Ok(class.handler),
            Err(error) if error.not_found() => {
                Err(SetupError::Retry(format!("RuntimeClass {name:?} not found")))
            }
            Err(error) => Err(SetupError::Retry(copepod_client::chain(&error))),
        }
    }
}
