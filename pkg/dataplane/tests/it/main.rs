//! Both drivers in network namespaces of their own, with real connections.

mod golden;
mod net;
mod scenario;
