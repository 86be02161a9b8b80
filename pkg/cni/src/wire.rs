//! What the plugin and the agent say to each other: one line of JSON each way on a local socket.

use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{Attachment, PortMapping};
use crate::error::{CniError, code};

/// How long the agent may take for one answer; far above its worst case, so that a hung agent is an error, not a hang.
const PATIENCE: Duration = Duration::from_secs(20);

/// A question to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "op")]
pub enum Request {
    /// Give the attachment its addresses (the same ones again when it has some).
    Add(Attach),
    /// Take back whatever the attachment holds.
    Del {
        /// See [`crate::handle`].
        handle: String,
        /// The host side's name.
        host_interface: String,
    },
    /// What does the attachment hold?
    Check {
        /// See [`crate::handle`].
        handle: String,
    },
    /// Publish host ports for an attachment that another plugin made.
    PortMap {
        /// The attachment and its ports.
        attach: Attach,
        /// Where its ports lead.
        addresses: Vec<IpAddr>,
    },
    /// Release what belongs to `network` and is not listed.
    Gc {
        /// The network's name.
        network: String,
        /// All attachments that exist.
        valid: Vec<Attachment>,
    },
    /// Could an ADD be served?
    Status,
}

/// An attachment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Attach {
    /// See [`crate::handle`].
    pub handle: String,
    /// The network's name.
    pub network: String,
    /// The sandbox.
    pub container_id: String,
    /// The interface inside it.
    pub ifname: String,
    /// The host side's name.
    pub host_interface: String,
    /// The pod's namespace and name, where known.
    pub pod: Option<(String, String)>,
    /// hostPorts to publish.
    pub ports: Vec<PortMapping>,
}

/// The agent's answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reply {
    /// The attachment's addresses, one per family.
    pub addresses: Vec<IpAddr>,
    /// The host side belongs to another, newer sandbox: leave it alone.
    pub superseded: bool,
    /// The question failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<CniError>,
}

/// Asks the agent at `socket`.
///
/// # Errors
/// Number 11 when the agent cannot be reached or does not answer; otherwise the agent's own error.
pub fn ask(socket: &Path, request: &Request) -> Result<Reply, CniError> {
    let down = |e: std::io::Error| {
        let details = format!("the node agent does not answer on {}: {e}", socket.display());
        CniError::new(code::TRY_AGAIN, "the node agent is not running", details)
    };
    let mut stream = UnixStream::connect(socket).map_err(down)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(down)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(down)?;
    let mut line = serde_json::to_vec(request)
        .map_err(|e| CniError::new(code::DECODE, "cannot encode the request", e.to_string()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(down)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(down)?;
    let reply: Reply = serde_json::from_str(&answer)
        .map_err(|e| CniError::new(code::TRY_AGAIN, "the node agent broke off", e.to_string()))?;
    match reply.error {
        Some(error) => Err(error),
        None => Ok(reply),
    }
}
