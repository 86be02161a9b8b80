//! Both drivers in network namespaces of their own, with real connections.

mod bench;
mod golden;
mod net;
mod ns;
mod scenario;
