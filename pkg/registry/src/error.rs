//! Store errors as a client sees them, with upstream's reasons and texts.

use copepod_api::{
    ApiError, Reason,
    status::{StatusCause, StatusDetails},
};
use copepod_store::{StoreError, TokenError};

/// The error of a read or write.
pub(crate) fn from_store(error: &StoreError) -> ApiError {
    match error {
        StoreError::Compacted(_) => {
            ApiError::expired("The resourceVersion for the provided list is too old.")
        }
        StoreError::TooOld(..) => ApiError::expired(error.to_string()),
        StoreError::TooLarge(..) => {
            let cause = StatusCause {
                reason: "ResourceVersionTooLarge".to_owned(),
                message: "Too large resource version".to_owned(),
                ..StatusCause::default()
            };
            ApiError::timeout(&error.to_string(), 1).with_details(StatusDetails {
                causes: vec![cause],
                retry_after_seconds: 1,
                ..StatusDetails::default()
            })
        }
        StoreError::NotReady => ApiError::too_many_requests("storage is (re)initializing", 1),
        StoreError::Behind { .. } | StoreError::Backend(_) => ApiError::internal(error),
        StoreError::RequestTooLarge => {
            ApiError::new(Reason::RequestEntityTooLarge, "Request entity is too large: limit is 3145728")
        }
    }
}

/// The error of a bad continue token.
pub(crate) fn from_token(error: &TokenError) -> ApiError {
    ApiError::bad_request(format!("invalid continue token: {error}"))
}

/// An error without a reason, as upstream answers for errors that are no statuses: 500 with the bare text.
pub(crate) fn unreasoned(message: &str) -> ApiError {
    ApiError::unreasoned(message)
}
