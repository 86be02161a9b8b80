use std::sync::Arc;

use serde_json::json;

use super::*;

fn pod(extra: serde_json::Value) -> PodRef {
    let mut value =
        json!({"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": {"containers": []}});
    for (key, child) in extra.as_object().unwrap() {
        for (k, v) in child.as_object().unwrap() {
            value[key][k] = v.clone();
        }
    }
    Arc::new(serde_json::from_value(value).unwrap())
}

fn plain() -> PodRef {
    pod(json!({}))
}

fn deleted(grace: i64) -> PodRef {
    pod(
        json!({"metadata": {"deletionTimestamp": "2026-11-30T00:00:00Z", "deletionGracePeriodSeconds": grace}}),
    )
}

/// Runs events; the words of all actions, and the last state.
fn run(mut state: PodState, events: Vec<Event>) -> (String, PodState) {
    let now = Instant::now();
    let mut words = Vec::new();
    let mut highest = state.phase;
    for event in events {
        let (next, actions) = step(state, event, now);
        for action in actions {
            words.push(match action {
                Action::Cancel => "cancel".to_owned(),
                Action::Sync(_) => "sync".to_owned(),
                Action::Terminate(_, grace) => {
                    format!("terminate({})", grace.map_or_else(|| "-".to_owned(), |g| g.to_string()))
                }
                Action::Free(_) => "free".to_owned(),
            });
        }
        highest = highest.max(next.phase);
        state = next;
    }
    (words.join(" "), state)
}

fn synced(terminal: bool) -> Event {
    Event::Synced { terminal, again: Duration::from_secs(60) }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one table")]
async fn life_of_a_pod() {
    let table: Vec<(&str, bool, Vec<Event>, &str, Phase)> = vec![
        (
            "one sync at a time, news coalesce",
            false,
            vec![Event::Set(plain()), Event::Wake, Event::Wake, synced(false), synced(false)],
            "sync sync",
            Phase::Sync,
        ),
        (
            "deletion cancels the sync",
            false,
            vec![Event::Set(plain()), Event::Set(deleted(30))],
            "sync cancel terminate(30)",
            Phase::Terminating,
        ),
        (
            "a late sync result does not go back",
            false,
            vec![
                Event::Set(plain()),
                Event::Kill { grace: None },
                Event::Set(plain()),
                Event::Stopped { gone: true },
            ],
            "sync cancel terminate(-) free",
            Phase::Terminated,
        ),
        (
            "a shorter grace restarts the stop",
            false,
            vec![Event::Set(deleted(30)), Event::Set(deleted(30)), Event::Set(deleted(1))],
            "terminate(30) cancel terminate(1)",
            Phase::Terminating,
        ),
        (
            "a longer grace does not",
            false,
            vec![Event::Set(deleted(1)), Event::Kill { grace: Some(60) }],
            "terminate(1)",
            Phase::Terminating,
        ),
        (
            "a finished pod stops by itself",
            false,
            vec![
                Event::Set(plain()),
                synced(true),
                Event::Stopped { gone: true },
                Event::Freed { done: true },
            ],
            "sync terminate(-) free",
            Phase::Done,
        ),
        (
            "done stays done",
            false,
            vec![
                Event::Set(plain()),
                synced(true),
                Event::Stopped { gone: true },
                Event::Freed { done: true },
                Event::Wake,
                Event::Set(plain()),
            ],
            "sync terminate(-) free",
            Phase::Done,
        ),
        (
            "deletion of a done pod frees again",
            false,
            vec![
                Event::Set(plain()),
                synced(true),
                Event::Stopped { gone: true },
                Event::Freed { done: true },
                Event::Set(deleted(0)),
            ],
            "sync terminate(-) free free",
            Phase::Terminated,
        ),
        (
            "a waiting pod does nothing until allowed",
            true,
            vec![Event::Set(plain()), Event::Wake, Event::Allowed],
            "sync",
            Phase::Sync,
        ),
        (
            "a stop that failed is tried again",
            false,
            vec![
                Event::Kill { grace: None },
                Event::Stopped { gone: false },
                Event::Wake,
                Event::Stopped { gone: true },
            ],
            "terminate(-) terminate(-) free",
            Phase::Terminated,
        ),
        (
            "the API's terminal phase stops it",
            false,
            vec![Event::Set(pod(json!({"status": {"phase": "Failed"}})))],
            "terminate(-)",
            Phase::Terminating,
        ),
    ];
    for (name, wait, events, expected, phase) in table {
        let (words, state) = run(PodState::new(plain(), wait), events);
        assert_eq!(words, expected, "{name}");
        assert_eq!(state.phase, phase, "{name}");
    }
}

#[tokio::test]
async fn retry_time_is_kept() {
    let (_, state) = run(PodState::new(plain(), false), vec![Event::Set(plain()), synced(false)]);
    assert!(state.wake_at.is_some() && !state.busy);
}
