//! Random histories against a model: every revision that is kept lists as it was, and a watch from it leads to the
//! present.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Names to labels, after each write.
type Snapshot = BTreeMap<String, String>;

fn labels(page: &ListPage) -> Snapshot {
    let of = |entry: &Arc<Entry>| entry.labels().label("app").unwrap_or_default().to_owned();
    page.entries.iter().map(|entry| (entry.name().to_owned(), of(entry))).collect()
}

/// Writes as told; the state after each revision.
async fn play(rig: &Rig, steps: &[(u8, Option<u8>)]) -> BTreeMap<Revision, Snapshot> {
    let (mut now, mut all) = (Snapshot::new(), BTreeMap::new());
    for (name, label) in steps {
        let (name, label) = (format!("p{name}"), label.map(|l| format!("l{l}")));
        let key = format!("{PODS}default/{name}");
        let revision = match label {
            Some(label) => {
                now.insert(name, label.clone());
                rig.put(&key, &label).await
            }
            None if now.remove(&name).is_some() => rig.delete(&key).await,
            None => continue,
        };
        all.insert(revision, now.clone());
    }
    all
}

async fn check(steps: Vec<(u8, Option<u8>)>, limit: usize) {
    let rig = rig().await;
    let all = play(&rig, &steps).await;
    rig.cache.fresh().await.unwrap();
    let Some(present) = all.values().last() else { return };
    for (revision, wanted) in &all {
        let (mut seen, mut start) = (Snapshot::new(), String::new());
        loop {
            let page = rig.list(At::Exact(*revision), limit, &start).await.unwrap();
            assert_eq!(page.revision, *revision);
            seen.extend(labels(&page));
            match page.next {
                Some(next) => start = next,
                None => break,
            }
        }
        assert_eq!(&seen, wanted, "the list at {revision}");
        let mut watcher = rig.watch(Start::After(*revision), None).await.unwrap();
        while let Some(event) = watcher.try_next().unwrap() {
            let entry = event.entry.unwrap();
            let label = entry.labels().label("app").unwrap_or_default().to_owned();
            let before = match event.kind {
                EventKind::Deleted => seen.remove(entry.name()),
                _ => seen.insert(entry.name().to_owned(), label),
            };
            assert_eq!(before.is_some(), event.kind != EventKind::Added, "{:?}", event.kind);
        }
        assert_eq!(&seen, present, "the watch from {revision}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn every_revision_lists_as_it_was(
        steps in prop::collection::vec((0_u8..6, prop::option::weighted(0.7, 0_u8..3)), 1..40),
        limit in 0_usize..4,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(steps, limit));
    }
}
