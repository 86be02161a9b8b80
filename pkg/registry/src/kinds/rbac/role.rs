//! Roles and cluster roles.

use crate::kinds::kind::Kind;

const BASE: Kind = Kind { create_on_update: true, name: copepod_api::names::path_segment, ..Kind::PLAIN };

/// Roles.
pub(crate) static ROLE: Kind = Kind { ..BASE };

/// Cluster roles.
pub(crate) static CLUSTER_ROLE: Kind = Kind { ..BASE };
