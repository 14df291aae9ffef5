//! What each user may have done for him. A user who writes and launches in a loop can slow others for a bounded
//! share of time, and no more often than so many times a minute.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::settings::ShieldSettings;

/// The time that grants and shares are counted in.
pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// Most accounts; those that are as new are forgotten. Further users are refused.
const MOST_ACCOUNTS: usize = 64;
/// A measure is not begun for less time than this.
const LEAST: Duration = Duration::from_secs(1);

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
        let earned = share(settings, elapsed);
        // It earns while it spends.
        let spent = if self.is_used {
            elapsed
        } else {
            Duration::ZERO
        };
        self.credit = (self.credit + earned)
            .saturating_sub(spent)
            .min(most_credit(settings));
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
        account.is_some_and(|account| account.credit >= LEAST)
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
            if account.is_used {
                // At a share of 100 % it is never exhausted.
                let spent_percent = 100_u32.saturating_sub(percent(settings));
                let left = account
                    .credit
                    .saturating_mul(100)
                    .checked_div(spent_percent);
                let end = left.and_then(|left| account.at.checked_add(left));
                first = [first, end].into_iter().flatten().min();
            }
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

fn share(settings: &ShieldSettings, time: Duration) -> Duration {
    time.saturating_mul(percent(settings)) / 100
}

/// The most that an account can hold: the share of a minute.
pub(super) fn most_credit(settings: &ShieldSettings) -> Duration {
    share(settings, MINUTE)
}
