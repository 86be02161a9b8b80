//! The one generic store of API objects and the strategies of each kind.
