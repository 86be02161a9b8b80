//! Sets of indexes as they are written: `0,3-5`. Pure.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Reads a set; parts that are no numbers, and what is not below `limit`, are left out.
pub(super) fn parse(text: &str, limit: i64) -> BTreeSet<i64> {
    let mut set = BTreeSet::new();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<i64>(), last.trim().parse::<i64>()) {
            set.extend(first.max(0)..=last.min(limit - 1));
        }
    }
    set
}

/// Writes a set.
pub(super) fn format(set: &BTreeSet<i64>) -> String {
    let mut text = String::new();
    let mut rest = set.iter().copied().peekable();
    while let Some(first) = rest.next() {
        let mut last = first;
        while rest.next_if_eq(&(last + 1)).is_some() {
            last += 1;
        }
        let comma = if text.is_empty() { "" } else { "," };
        // Two in a row are written as two, like upstream does.
        let result = match last - first {
            0 => write!(text, "{comma}{first}"),
            1 => write!(text, "{comma}{first},{last}"),
            _ => write!(text, "{comma}{first}-{last}"),
        };
        result.expect("writing to a String cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_survive_writing_and_reading() {
        let set = parse("0,3-5,7,8,99", 50);
        assert_eq!(set, BTreeSet::from([0, 3, 4, 5, 7, 8]));
        assert_eq!(format(&set), "0,3-5,7,8");
        assert_eq!(format(&parse("", 5)), "");
        assert_eq!(parse("a,2-x,1", 5), BTreeSet::from([1]));
    }
}
