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
            if new.get(field).value() != old.get(field).value() {
                new.get(field).forbidden(format!("updates to {field} are forbidden."));
            }
        }
    }),
    ..Kind::PLAIN
};
