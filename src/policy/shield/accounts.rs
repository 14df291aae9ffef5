//! What each user may have done for him. A user who writes and launches in a loop can slow others for a bounded
//! share of time, and no more often than so many times a minute.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::settings::ShieldSettings;

/// The time that grants and shares are counted in.
pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// Most accounts; those that are as new are forgotten. Further users are refused.
const MOST_ACCOUNTS: usize = 64;
/// A measure is not begun for less time than this, or than an account can hold: a setting that changes every second
/// helps nobody, and takes a grant each time.
const LEAST: Duration = Duration::from_secs(5);

/// The accounts, by user; `None` is the system's own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct UserAccounts(BTreeMap<Option<u32>, UserAccount>);

/// What one user has used.
#[derive(Clone, Debug, PartialEq)]
struct UserAccount {
    /// When measures were granted, in the last minute.
    grants: VecDeque<Duration>,
    /// How long measures that others feel may still be in force.
    credit: Duration,
    /// When `credit` was right.
    at: Duration,
    /// Whether such a measure is in force.
    is_used: bool,
}

impl UserAccount {
    fn new(settings: &ShieldSettings, now: Duration) -> Self {
        UserAccount {
            grants: VecDeque::new(),
            credit: most_credit(settings),
            at: now,
            is_used: false,
        }
    }

    /// Brings the account up to `now`.
    fn advance(&mut self, settings: &ShieldSettings, now: Duration) {
        let elapsed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        self.credit = match self.is_used {
            // At a share of 100 % nothing is spent.
            true if percent(settings) == 100 => self.credit,
            true => self.credit.saturating_sub(elapsed),
            false => {
                let credit = self.credit.saturating_add(earned(settings, elapsed));
                credit.min(most_credit(settings))
            }
        };
        while self
            .grants
            .front()
            .is_some_and(|&grant| grant + MINUTE <= now)
        {
            self.grants.pop_front();
        }
    }

    fn is_as_new(&self, settings: &ShieldSettings) -> bool {
        !self.is_used && self.grants.is_empty() && self.credit == most_credit(settings)
    }
}

impl UserAccounts {
    /// Brings all accounts up to `now`, and forgets those that are as new.
    pub fn advance(&mut self, settings: &ShieldSettings, now: Duration) {
        for account in self.0.values_mut() {
            account.advance(settings, now);
        }
        self.0.retain(|_, account| !account.is_as_new(settings));
    }

    /// Takes a grant of this user's; false if he had his share.
    pub fn grant(&mut self, uid: Option<u32>, settings: &ShieldSettings, now: Duration) -> bool {
        let Some(account) = self.account(uid, settings, now) else {
            return false;
        };
        let is_free = (account.grants.len() as u64) < settings.grants_per_minute;
        if is_free {
            account.grants.push_back(now);
        }
        is_free
    }

    /// Whether a measure that others feel may begin on this user's account.
    pub fn may_begin(
        &mut self,
        uid: Option<u32>,
        settings: &ShieldSettings,
        now: Duration,
    ) -> bool {
        let account = self.account(uid, settings, now);
        let least = LEAST.min(most_credit(settings));
        account.is_some_and(|account| account.credit >= least)
    }

    /// Whether one that is in force has to end.
    pub fn is_exhausted(&self, uid: Option<u32>) -> bool {
        let account = self.0.get(&uid);
        account.is_some_and(|account| account.credit < Duration::from_millis(1))
    }

    /// Says on whose accounts measures that others feel are in force from now on. Returns when the first of these
    /// accounts is exhausted.
    pub fn use_from_now(
        &mut self,
        used: &[Option<u32>],
        settings: &ShieldSettings,
        now: Duration,
    ) -> Option<Duration> {
        for &uid in used {
            // As many as there are measures in force, whatever the table holds.
            let new = || UserAccount::new(settings, now);
            self.0.entry(uid).or_insert_with(new);
        }
        let mut first = None;
        for (uid, account) in &mut self.0 {
            account.is_used = used.contains(uid);
            // At a share of 100 % it is never exhausted.
            let is_spent = account.is_used && percent(settings) < 100;
            let end = is_spent.then(|| account.at.saturating_add(account.credit));
            first = [first, end].into_iter().flatten().min();
        }
        first
    }

    /// The user's account; `None` if there are too many.
    fn account(
        &mut self,
        uid: Option<u32>,
        settings: &ShieldSettings,
        now: Duration,
    ) -> Option<&mut UserAccount> {
        if self.0.len() >= MOST_ACCOUNTS && !self.0.contains_key(&uid) {
            return None;
        }
        let new = || UserAccount::new(settings, now);
        Some(self.0.entry(uid).or_insert_with(new))
    }
}

fn percent(settings: &ShieldSettings) -> u32 {
    u32::try_from(settings.share_percent)
        .unwrap_or(100)
        .min(100)
}

/// What an account earns while it is not used: as much as makes the used time the share of all time. At a share of one
/// half that is a second in each second.
fn earned(settings: &ShieldSettings, unused: Duration) -> Duration {
    let share = percent(settings);
    unused.saturating_mul(share) / (100 - share).max(1)
}

/// The most that an account can hold: the share of a minute.
pub(super) fn most_credit(settings: &ShieldSettings) -> Duration {
    MINUTE * percent(settings) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_earns_only_while_it_is_not_used() {
        let settings = ShieldSettings::default();
        let mut accounts = UserAccounts::default();
        let user = Some(1000);
        let at = Duration::from_secs;
        let exhausted = accounts.use_from_now(&[user], &settings, at(100));
        assert_eq!(exhausted, Some(at(130)), "half a minute at a stretch");
        accounts.advance(&settings, at(129));
        assert!(!accounts.is_exhausted(user));
        accounts.advance(&settings, at(130));
        assert!(accounts.is_exhausted(user));
        assert_eq!(accounts.use_from_now(&[], &settings, at(130)), None);
        accounts.advance(&settings, at(134));
        assert!(!accounts.may_begin(user, &settings, at(134)));
        accounts.advance(&settings, at(135));
        assert!(accounts.may_begin(user, &settings, at(135)));
        let exhausted = accounts.use_from_now(&[user], &settings, at(135));
        assert_eq!(exhausted, Some(at(140)), "as long as it was not used");
    }

    #[test]
    fn the_smallest_and_the_largest_share_are_of_use() {
        let user = Some(1000);
        let at = Duration::from_secs;
        for (share_percent, exhausted) in [(1, Some(Duration::from_millis(100_600))), (100, None)] {
            let settings = ShieldSettings {
                share_percent,
                ..ShieldSettings::default()
            };
            let mut accounts = UserAccounts::default();
            assert!(accounts.may_begin(user, &settings, at(100)));
            assert_eq!(
                accounts.use_from_now(&[user], &settings, at(100)),
                exhausted
            );
            accounts.advance(&settings, at(9999));
            assert_eq!(accounts.is_exhausted(user), share_percent == 1);
        }
    }
}
