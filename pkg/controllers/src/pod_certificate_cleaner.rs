//! PodCertificateRequests are short notes between kubelet and signer: after a quarter of an hour they go.

use std::time::Duration;

use copepod_client::resources::POD_CERTIFICATE_REQUESTS as REQUESTS;
use copepod_client::{Informer, InformerConfig, Meta, Outcome, WorkQueue};
use copepod_sys::clock;
use jiff::{SignedDuration, Timestamp};

use crate::context::{Context, enqueue};
use crate::step::{Step, execute_all};
use crate::views::MetaOnly;

/// Upstream's threshold.
const AGE: SignedDuration = SignedDuration::from_mins(15);

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    let requests: Informer<MetaOnly> = Informer::new(InformerConfig::all(REQUESTS).metadata_only());
    enqueue(&requests, &queue);
    requests.start(&context.reader, &context.shutdown);
    context.work(&queue, 1, move |context, key| {
        let requests = requests.clone();
        async move {
            let Some(request) = requests.get_key(&key) else { return Ok(Outcome::Done) };
            if let Some(wait) = remaining(&request.metadata, clock::now()) {
                return Ok(Outcome::After(wait));
            }
            let step = Step::delete(&REQUESTS, &request.metadata);
            execute_all(&context, vec![step]).await.map(|()| Outcome::Done)
        }
    });
}

/// How long it may stay.
fn remaining(meta: &Meta, now: Timestamp) -> Option<Duration> {
    let left = (meta.creation_timestamp? + AGE).duration_since(now);
    (left > SignedDuration::ZERO).then(|| left.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_stay_a_quarter_of_an_hour() {
        let meta = Meta { creation_timestamp: Some(Timestamp::UNIX_EPOCH), ..Meta::default() };
        let after = |minutes: i64| Timestamp::from_second(minutes * 60).unwrap();
        assert_eq!(remaining(&meta, after(10)), Some(Duration::from_secs(300)));
        assert_eq!(remaining(&meta, after(16)), None);
    }
}
