//! Usage of a session's URRs between the workers' counters and the reports.
//!
//! Workers count; control keeps, per URR, how much of the count has been reported, the number of the next report and
//! since when the current measurement runs. Each packet is reported exactly once. Thresholds and quotas are not acted
//! upon here.

use flow::{Nanos, UrrCount};
use rules::model::{MeasurementMethod, UrrId};
use std::collections::BTreeMap;

/// A moment on the process's clock, in nanoseconds. It is negative before the clock began: a session may be older than
/// the process that has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

impl Moment {
    /// Nanoseconds since 1970, where the clock began `clock_unix` seconds after that. What lies outside of 584 years
    /// wraps.
    pub const fn unix_nanos(self, clock_unix: u64) -> u64 {
        clock_unix
            .wrapping_mul(NANOS_PER_SECOND)
            .wrapping_add_signed(self.0)
    }

    /// The moment so many nanoseconds after 1970.
    pub const fn from_unix_nanos(nanos: u64, clock_unix: u64) -> Moment {
        Moment(nanos.wrapping_sub(clock_unix.wrapping_mul(NANOS_PER_SECOND)) as i64)
    }
}

impl From<Nanos> for Moment {
    fn from(now: Nanos) -> Moment {
        Moment(i64::try_from(now.0).unwrap_or(i64::MAX))
    }
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;

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

/// Why a report is made (TS 29.244 §8.2.41).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportCause {
    /// TERMR: the session ends, the URR is removed or has lost its last PDR.
    Termination,
    /// IMMER: the control plane asked.
    Immediate,
}

/// The usage of one URR since its last report (TS 29.244 §5.2.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageReport {
    /// The URR.
    pub urr: UrrId,
    /// What the URR measures.
    pub method: MeasurementMethod,
    /// UR-SEQN: 0 for the URR's first report, then one more each.
    pub sequence: u32,
    /// Why.
    pub cause: ReportCause,
    /// What was counted.
    pub count: UrrCount,
    /// When the measurement began.
    pub start: Moment,
    /// When it ended.
    pub end: Moment,
}

impl UsageReport {
    /// Whether nothing was used.
    pub fn is_null(&self) -> bool {
        is_null(self.count)
    }

    /// Adds the report that follows on this one, if it is of the same URR, for the same reason and the next in number.
    /// Answers whether it was; its number is then to be given again
    /// ([`Sessions::recall_report`](crate::Sessions::recall_report)).
    pub fn absorb(&mut self, next: &UsageReport) -> bool {
        let follows = next.urr == self.urr
            && next.cause == self.cause
            && next.method == self.method
            && next.sequence == self.sequence.wrapping_add(1);
        if follows {
            self.count = sum(self.count, next.count);
            self.end = next.end;
        }
        follows
    }
}

/// A worker's count of one URR, since its slot began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) urr: UrrId,
    pub(crate) method: MeasurementMethod,
    pub(crate) count: UrrCount,
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
pub(crate) struct UsageBook {
    accounts: BTreeMap<UrrId, Account>,
}

impl UsageBook {
    /// Accounts of URRs whose slots had counted so much before: that is not theirs.
    pub(crate) fn beginning_at(inherited: &[(UrrId, UrrCount)]) -> UsageBook {
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
    pub(crate) fn follow(&mut self, now: Nanos, urrs: impl Iterator<Item = UrrId> + Clone) {
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
    pub(crate) fn report(&mut self, now: Nanos, counted: Counted, cause: ReportCause) -> UsageReport {
        let account = self.accounts.entry(counted.urr).or_default();
        let report = UsageReport {
            urr: counted.urr,
            method: counted.method,
            sequence: account.next,
            cause,
            count: sum(difference(counted.count, account.reported), account.carried),
            start: account.since,
            end: now.into(),
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
    pub(crate) fn report_if_any(
        &mut self,
        now: Nanos,
        counted: Counted,
        cause: ReportCause,
    ) -> Option<UsageReport> {
        let account = self.accounts.get(&counted.urr).copied().unwrap_or_default();
        let fresh = sum(difference(counted.count, account.reported), account.carried);
        (!is_null(fresh)).then(|| self.report(now, counted, cause))
    }

    /// The last report of a URR whose slot is gone: with what it counted, if that is known, else with what is known
    /// without it.
    pub(crate) fn last(
        &mut self,
        now: Nanos,
        (urr, method): (UrrId, MeasurementMethod),
        counted: Option<UrrCount>,
        cause: ReportCause,
    ) -> UsageReport {
        let reported = self.accounts.get(&urr).map(|account| account.reported);
        let reported = reported.unwrap_or_default();
        // A slot that counted less than was reported of it is another one: nothing is known of it.
        let count = combine(counted.unwrap_or(reported), reported, u64::max);
        self.report(now, Counted { urr, method, count }, cause)
    }

    /// The last report, with this number, was added to the one before it: its number is given again.
    pub(crate) fn recall(&mut self, urr: UrrId, sequence: u32) {
        if let Some(account) = self.accounts.get_mut(&urr)
            && account.next == sequence.wrapping_add(1)
        {
            account.next = sequence;
        }
    }

    /// Where the accounts stand, with what the worker's slots of the URRs count now.
    pub(crate) fn checkpoints(&self, counted: &[(UrrId, UrrCount)]) -> Vec<UrrCheckpoint> {
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
    pub(crate) fn resuming(checkpoints: &[UrrCheckpoint]) -> UsageBook {
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
    pub(crate) fn carry(&mut self, urr: UrrId, counted: UrrCount) {
        if let Some(account) = self.accounts.get_mut(&urr) {
            account.carried = sum(account.carried, difference(counted, account.reported));
            account.reported = UrrCount::default();
        }
    }

    /// Another slot of `urr` ended with `counted`, beside the one whose count goes on.
    pub(crate) fn add(&mut self, urr: UrrId, counted: UrrCount) {
        if let Some(account) = self.accounts.get_mut(&urr) {
            account.carried = sum(account.carried, counted);
        }
    }
}

/// Whether nothing was counted.
fn is_null(count: UrrCount) -> bool {
    count.ul_packets == 0 && count.dl_packets == 0
}

pub(crate) fn sum(a: UrrCount, b: UrrCount) -> UrrCount {
    combine(a, b, u64::wrapping_add)
}

fn difference(a: UrrCount, b: UrrCount) -> UrrCount {
    combine(a, b, u64::wrapping_sub)
}

fn combine(a: UrrCount, b: UrrCount, op: fn(u64, u64) -> u64) -> UrrCount {
    UrrCount {
        ul_packets: op(a.ul_packets, b.ul_packets),
        ul_octets: op(a.ul_octets, b.ul_octets),
        dl_packets: op(a.dl_packets, b.dl_packets),
        dl_octets: op(a.dl_octets, b.dl_octets),
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
        let first = book.report(Nanos::from_secs(2), counted(5), ReportCause::Immediate);
        let last = book.report(Nanos::from_secs(3), counted(7), ReportCause::Termination);
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
        book.report(Nanos::ZERO, counted(5), ReportCause::Immediate);
        book.carry(URR, count(9));
        let report = book.report(Nanos::ZERO, counted(1), ReportCause::Termination);
        assert_eq!(report.count, count(4 + 1));
    }

    #[test]
    fn an_account_goes_on_where_its_checkpoint_stands() {
        let mut book = UsageBook::default();
        book.follow(Nanos::from_secs(1), [URR].into_iter());
        book.report(Nanos::from_secs(2), counted(5), ReportCause::Immediate);
        let checkpoints = book.checkpoints(&[(URR, count(9))]);
        let mut second = UsageBook::resuming(&checkpoints);
        second.follow(Nanos::ZERO, [URR].into_iter());
        let report = second.report(Nanos::ZERO, counted(3), ReportCause::Termination);
        assert_eq!((report.sequence, report.count), (1, count(4 + 3)));
        assert_eq!(report.start, Nanos::from_secs(2).into());
    }

    #[test]
    fn a_moment_before_the_clock_began_keeps_its_date() {
        let started = 1_700_000_000;
        let old = Moment(-5_000_000_001);
        assert_eq!(old.unix_nanos(started), 1_699_999_994_999_999_999);
        assert_eq!(Moment::from_unix_nanos(old.unix_nanos(started), started), old);
        assert_eq!(Moment::from_unix_nanos(7, 0), Moment(7));
    }

    #[test]
    fn a_urr_that_is_created_anew_starts_anew() {
        let mut book = UsageBook::default();
        book.follow(Nanos::ZERO, [URR].into_iter());
        book.report(Nanos::ZERO, counted(5), ReportCause::Immediate);
        book.follow(Nanos::ZERO, [].into_iter());
        book.follow(Nanos::from_secs(9), [URR].into_iter());
        let report = book.report(Nanos::from_secs(9), counted(1), ReportCause::Termination);
        assert_eq!(
            (report.sequence, report.count, report.start),
            (0, count(1), Nanos::from_secs(9).into())
        );
        assert!(is_null(UrrCount::default()) && !is_null(report.count));
    }
}
