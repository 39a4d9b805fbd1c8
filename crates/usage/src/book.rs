//! Usage of a session's URRs between the workers' counters and the reports.
//!
//! Workers count; control keeps, per URR, how much of the count has been reported, the number of the next report and
//! since when the current measurement runs. Each packet is reported exactly once. Thresholds and quotas are not acted
//! upon here.

use flow::{Nanos, UrrCount};
use rules::model::{MeasurementMethod, UrrId};
use std::collections::BTreeMap;

use crate::count::{difference, is_null, sum};
use crate::{Moment, UsageReport, UsageTriggers};

/// Where the account of one URR stands: what a session record has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrrCheckpoint {
    /// The URR.
    pub urr: UrrId,
    /// UR-SEQN of its next report.
    pub next: u32,
    /// When the measurement under way began.
    pub since: Moment,
    /// What was counted since then.
    pub count: UrrCount,
}

/// A worker's count of one URR, since its slot began.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    pub urr: UrrId,
    pub method: MeasurementMethod,
    pub count: UrrCount,
}

/// One URR's account.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// The part of the worker's count that was reported.
    reported: UrrCount,
    /// Counted in a worker's slot that is gone, and not reported.
    carried: UrrCount,
    next: u32,
    since: Moment,
}

/// The accounts of one session.
#[derive(Debug, Default)]
pub struct UsageBook {
    accounts: BTreeMap<UrrId, Account>,
}

impl UsageBook {
    /// Accounts of URRs whose slots had counted so much before: that is not theirs.
    pub fn beginning_at(inherited: &[(UrrId, UrrCount)]) -> UsageBook {
        let account = |(urr, count): &(UrrId, UrrCount)| {
            let reported = *count;
            (
                *urr,
                Account {
                    reported,
                    ..Account::default()
                },
            )
        };
        UsageBook {
            accounts: inherited.iter().map(account).collect(),
        }
    }

    /// Opens an account for each of `urrs` that has none, and closes those of URRs that are gone.
    pub fn follow(&mut self, now: Nanos, urrs: impl Iterator<Item = UrrId> + Clone) {
        for urr in urrs.clone() {
            self.accounts.entry(urr).or_insert(Account {
                since: now.into(),
                ..Account::default()
            });
        }
        self.accounts
            .retain(|known, _| urrs.clone().any(|urr| urr == *known));
    }

    /// Reports what was counted since the last report, and starts the next measurement.
    pub fn report(&mut self, now: Nanos, counted: Counted, triggers: UsageTriggers) -> UsageReport {
        let account = self.accounts.entry(counted.urr).or_default();
        let report = UsageReport {
            urr: counted.urr,
            method: counted.method,
            sequence: account.next,
            triggers,
            count: sum(difference(counted.count, account.reported), account.carried),
            start: account.since,
            end: now.into(),
            duration: None,
            first: None,
            last: None,
            information: None,
        };
        *account = Account {
            reported: counted.count,
            carried: UrrCount::default(),
            next: account.next.wrapping_add(1),
            since: now.into(),
        };
        report
    }

    /// The same, unless there is nothing to report: then no number is used up.
    pub fn report_if_any(
        &mut self,
        now: Nanos,
        counted: Counted,
        triggers: UsageTriggers,
    ) -> Option<UsageReport> {
        let account = self.accounts.get(&counted.urr).copied().unwrap_or_default();
        let fresh = sum(difference(counted.count, account.reported), account.carried);
        (!is_null(fresh)).then(|| self.report(now, counted, triggers))
    }

    /// The last report, with this number, was added to the one before it: its number is given again.
    pub fn recall(&mut self, urr: UrrId, sequence: u32) {
        if let Some(account) = self.accounts.get_mut(&urr)
            && account.next == sequence.wrapping_add(1)
        {
            account.next = sequence;
        }
    }

    /// Where the accounts stand, with what the worker's slots of the URRs count now.
    pub fn checkpoints(&self, counted: &[(UrrId, UrrCount)]) -> Vec<UrrCheckpoint> {
        let of = |urr| counted.iter().find(|(id, _)| *id == urr).map(|(_, count)| *count);
        let checkpoint = |(&urr, account): (&UrrId, &Account)| {
            let fresh = of(urr).map(|count| difference(count, account.reported));
            UrrCheckpoint {
                urr,
                next: account.next,
                since: account.since,
                count: sum(fresh.unwrap_or_default(), account.carried),
            }
        };
        self.accounts.iter().map(checkpoint).collect()
    }

    /// Accounts that go on from `checkpoints` with slots that count from 0.
    pub fn resuming(checkpoints: &[UrrCheckpoint]) -> UsageBook {
        let account = |one: &UrrCheckpoint| Account {
            reported: UrrCount::default(),
            carried: one.count,
            next: one.next,
            since: one.since,
        };
        UsageBook {
            accounts: checkpoints.iter().map(|one| (one.urr, account(one))).collect(),
        }
    }

    /// A worker's slot of `urr` ended with `counted` although the URR lives on: the rest is reported later.
    pub fn carry(&mut self, urr: UrrId, counted: UrrCount) {
        if let Some(account) = self.accounts.get_mut(&urr) {
            account.carried = sum(account.carried, difference(counted, account.reported));
            account.reported = UrrCount::default();
        }
    }

    /// Another slot of `urr` ended with `counted`, beside the one whose count goes on.
    pub fn add(&mut self, urr: UrrId, counted: UrrCount) {
        if let Some(account) = self.accounts.get_mut(&urr) {
            account.carried = sum(account.carried, counted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URR: UrrId = UrrId(1);

    fn counted(packets: u64) -> Counted {
        Counted {
            urr: URR,
            method: MeasurementMethod::VOLUM,
            count: count(packets),
        }
    }

    fn count(packets: u64) -> UrrCount {
        UrrCount {
            ul_packets: packets,
            ul_octets: packets * 100,
            ..UrrCount::default()
        }
    }

    #[test]
    fn each_packet_is_reported_once_and_reports_are_numbered() {
        let mut book = UsageBook::default();
        book.follow(Nanos::from_secs(1), [URR].into_iter());
        let first = book.report(Nanos::from_secs(2), counted(5), UsageTriggers::IMMER);
        let last = book.report(Nanos::from_secs(3), counted(7), UsageTriggers::TERMR);
        assert_eq!(
            (first.sequence, first.count, first.start),
            (0, count(5), Nanos::from_secs(1).into())
        );
        assert_eq!(
            (last.sequence, last.count, last.start),
            (1, count(2), Nanos::from_secs(2).into())
        );
    }

    #[test]
    fn what_a_lost_slot_counted_is_carried_into_the_next_report() {
        let mut book = UsageBook::default();
        book.follow(Nanos::ZERO, [URR].into_iter());
        book.report(Nanos::ZERO, counted(5), UsageTriggers::IMMER);
        book.carry(URR, count(9));
        let report = book.report(Nanos::ZERO, counted(1), UsageTriggers::TERMR);
        assert_eq!(report.count, count(4 + 1));
    }

    #[test]
    fn an_account_goes_on_where_its_checkpoint_stands() {
        let mut book = UsageBook::default();
        book.follow(Nanos::from_secs(1), [URR].into_iter());
        book.report(Nanos::from_secs(2), counted(5), UsageTriggers::IMMER);
        let checkpoints = book.checkpoints(&[(URR, count(9))]);
        let mut second = UsageBook::resuming(&checkpoints);
        second.follow(Nanos::ZERO, [URR].into_iter());
        let report = second.report(Nanos::ZERO, counted(3), UsageTriggers::TERMR);
        assert_eq!((report.sequence, report.count), (1, count(4 + 3)));
        assert_eq!(report.start, Nanos::from_secs(2).into());
    }

    #[test]
    fn a_urr_that_is_created_anew_starts_anew() {
        let mut book = UsageBook::default();
        book.follow(Nanos::ZERO, [URR].into_iter());
        book.report(Nanos::ZERO, counted(5), UsageTriggers::IMMER);
        book.follow(Nanos::ZERO, [].into_iter());
        book.follow(Nanos::from_secs(9), [URR].into_iter());
        let report = book.report(Nanos::from_secs(9), counted(1), UsageTriggers::TERMR);
        assert_eq!(
            (report.sequence, report.count, report.start),
            (0, count(1), Nanos::from_secs(9).into())
        );
        assert!(is_null(UrrCount::default()) && !is_null(report.count));
    }
}
