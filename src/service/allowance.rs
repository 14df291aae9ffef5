//! What each user may use of something that comes back with time.

use std::collections::HashMap;
use std::time::Instant;

/// How many users are told apart at a time.
const MAX_USERS: usize = 256;

/// A bucket of amounts for each user. Root's is always full: he has other means.
#[derive(Debug)]
pub(super) struct Allowance {
    /// The most that a user may use at once.
    most: u64,
    /// How much of it comes back in a second.
    per_s: u64,
    used: HashMap<u32, Used>,
}

/// What a user had used at a moment.
#[derive(Clone, Copy, Debug)]
struct Used {
    amount: u64,
    at: Instant,
}

impl Used {
    /// What still counts of it.
    fn still(self, per_s: u64, now: Instant) -> u64 {
        let passed_ms = now.saturating_duration_since(self.at).as_millis();
        let back = u128::from(per_s) * passed_ms / 1000;
        let back = u64::try_from(back).unwrap_or(u64::MAX);
        self.amount.saturating_sub(back)
    }
}

impl Allowance {
    /// An allowance of `most` at once, and of `per_s` a second for long.
    pub fn new(most: u64, per_s: u64) -> Self {
        Allowance {
            most,
            per_s,
            used: HashMap::new(),
        }
    }

    /// How much a user may use now. While 256 others have used some lately, nothing.
    pub fn left(&self, uid: u32, now: Instant) -> u64 {
        match self.used.get(&uid) {
            Some(used) => self.most.saturating_sub(used.still(self.per_s, now)),
            None if uid != 0 && self.is_full(now) => 0,
            None => self.most,
        }
    }

    /// Whether a user has all that he may use.
    pub fn is_untouched(&self, uid: u32, now: Instant) -> bool {
        self.left(uid, now) == self.most
    }

    /// A user has used some, also if that is more than is left.
    pub fn charge(&mut self, uid: u32, amount: u64, now: Instant) {
        if uid == 0 {
            return;
        }
        let before = self
            .used
            .get(&uid)
            .map_or(0, |used| used.still(self.per_s, now));
        if !self.used.contains_key(&uid) && self.used.len() >= MAX_USERS {
            let per_s = self.per_s;
            self.used.retain(|_, used| used.still(per_s, now) > 0);
            if self.used.len() >= MAX_USERS {
                return;
            }
        }
        let amount = before.saturating_add(amount);
        self.used.insert(uid, Used { amount, at: now });
    }

    /// Some of what a user was charged with was not used.
    pub fn give_back(&mut self, uid: u32, amount: u64, now: Instant) {
        let used = self.used.get(&uid).map(|used| used.still(self.per_s, now));
        if let Some(used) = used {
            let amount = used.saturating_sub(amount);
            self.used.insert(uid, Used { amount, at: now });
        }
    }

    fn is_full(&self, now: Instant) -> bool {
        let counts = self
            .used
            .values()
            .filter(|used| used.still(self.per_s, now) > 0);
        counts.count() >= MAX_USERS
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const USER: u32 = 1000;

    #[test]
    fn what_was_used_comes_back_with_time_for_each_user_alone() {
        let begun = Instant::now();
        let after = |s| begun + Duration::from_secs(s);
        let mut allowance = Allowance::new(100, 2);
        allowance.charge(USER, 90, begun);
        assert_eq!(allowance.left(USER, begun), 10);
        assert_eq!(allowance.left(USER + 1, begun), 100);
        assert_eq!(allowance.left(USER, after(20)), 50);
        allowance.charge(USER, 80, after(20));
        assert_eq!(allowance.left(USER, after(20)), 0);
        assert_eq!(allowance.left(USER, after(30)), 0, "130 were used");
        assert_eq!(allowance.left(USER, after(40)), 10);
        allowance.give_back(USER, 40, after(40));
        assert_eq!(allowance.left(USER, after(40)), 50);
        allowance.give_back(USER, 400, after(40));
        assert!(allowance.is_untouched(USER, after(40)));
    }

    #[test]
    fn many_users_are_bounded_and_root_is_not() {
        let begun = Instant::now();
        let mut allowance = Allowance::new(100, 2);
        for uid in 0..100_000 {
            allowance.charge(uid, 1000, begun);
        }
        assert_eq!(allowance.used.len(), MAX_USERS);
        assert_eq!(
            (allowance.left(0, begun), allowance.left(70_000, begun)),
            (100, 0)
        );
        let later = begun + Duration::from_secs(500);
        assert_eq!(allowance.left(70_000, later), 100);
        allowance.charge(70_000, 1, later);
        assert_eq!(allowance.used.len(), 1);
    }
}
