use std::time::Duration;

use tokio::time::{Instant, advance, timeout};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_key_waits_once_and_is_worked_on_by_one() {
    let queue = WorkQueue::new();
    queue.add("a");
    queue.add("a");
    queue.add("b");
    assert_eq!(queue.next().await, Some("a"));
    queue.add("a");
    assert_eq!(queue.next().await, Some("b"));
    assert!(timeout(Duration::from_secs(1), queue.next()).await.is_err(), "a is still being worked on");
    queue.done(&"a");
    assert_eq!(queue.next().await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn delays_are_kept_and_the_earliest_wins() {
    let queue = WorkQueue::new();
    queue.add_after("late", Duration::from_secs(10));
    queue.add_after("late", Duration::from_secs(5));
    queue.add_after("early", Duration::from_secs(1));
    let start = Instant::now();
    assert_eq!(queue.next().await, Some("early"));
    assert_eq!(start.elapsed().as_secs(), 1);
    assert_eq!(queue.next().await, Some("late"));
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_worker_sees_a_shorter_delay_that_comes_later() {
    let queue = WorkQueue::new();
    queue.add_after(1, Duration::from_secs(100));
    let other = queue.clone();
    let start = Instant::now();
    let (got, ()) = tokio::join!(queue.next(), async move {
        advance(Duration::from_secs(1)).await;
        other.add_after(2, Duration::from_secs(1));
    });
    assert_eq!((got, start.elapsed().as_secs()), (Some(2), 2));
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_up_to_a_limit_and_are_forgotten() {
    let queue = WorkQueue::new();
    let mut waits = Vec::new();
    for _ in 0..20 {
        queue.add_rate_limited(());
        let start = Instant::now();
        queue.next().await;
        queue.done(&());
        waits.push(start.elapsed());
    }
    assert!(waits[1] >= Duration::from_millis(10) && waits[1] < Duration::from_millis(12), "{waits:?}");
    assert!(waits[19] >= BACKOFF.1 && waits[19] <= BACKOFF.1.mul_f64(1.1) + Duration::from_millis(1));
    queue.forget(&());
    queue.add_rate_limited(());
    let start = Instant::now();
    queue.next().await;
    assert!(start.elapsed() < Duration::from_millis(8));
}

#[tokio::test(start_paused = true)]
async fn workers_end_after_shut_down() {
    let queue = WorkQueue::new();
    queue.add(1);
    queue.add_after(2, Duration::from_secs(1));
    queue.shut_down();
    queue.add(3);
    assert_eq!(queue.next().await, Some(1));
    assert_eq!(queue.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn work_retries_what_failed() {
    let queue = WorkQueue::new();
    queue.add("x");
    let mut calls = 0;
    queue
        .work("test", |_| {
            calls += 1;
            let result = if calls < 3 { Err(std::io::Error::other("not yet")) } else { Ok(Outcome::Done) };
            if result.is_ok() {
                queue.shut_down();
            }
            std::future::ready(result)
        })
        .await;
    assert_eq!(calls, 3);
    assert_eq!(queue.failures(&"x"), 0);
}
