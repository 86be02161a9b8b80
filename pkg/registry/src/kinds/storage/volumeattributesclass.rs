//! Volume attributes classes.

use super::storageclass::parameters;
use crate::kinds::kind::Kind;
use crate::kinds::pod::volumes::csi_driver;

/// Volume attributes classes.
pub(crate) static KIND: Kind = Kind {
    validate: |class| {
        csi_driver(&class.get("driverName"));
        parameters(&class.get("parameters"), false);
    },
    validate_update: Some(|new, old| {
        for field in ["driverName", "parameters"] {
            new.get(field).immutable(&old.get(field));
        }
    }),
    ..Kind::PLAIN
};
