//! Runs the address service alone, inside the node's namespaces: `agent SOCKET STORE RANGE`.

use copepod_cni::{NodeStore, ipam};
use tokio_util::sync::CancellationToken;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [socket, store, range] = args.as_slice() else {
        return Err("usage: agent SOCKET STORE RANGE".into());
    };
    let config = ipam::Config { socket: socket.into(), ranges: vec![range.parse()?] };
    Ok(Box::pin(ipam::serve(NodeStore::open(store.as_ref())?, config, CancellationToken::new())).await?)
}
