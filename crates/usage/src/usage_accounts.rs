//! The accounts of one session's URRs, between the workers' counters and the reports.
//!
//! Workers count; the accounts keep, per URR, how much of the count has been reported, the number of the next report,
//! since when the current measurement runs, and the [`UrrState`] of a URR that does something by itself. Each packet is
//! reported exactly once, whatever it is reported for.
//!
//! Each account is stored packed ([`Packed`]): it is unpacked to be changed, and packed again.

use flow::{Bounds, Nanos, PacketTimes, Reached, UrrCount};
use rules::image::Counter;
use rules::model::{Multiplier, ReportingTriggers, Urr, UrrId};

use crate::bounds::{UrrBounds, by_slot, by_urr};
use crate::count::{combine, sum};
use crate::make_usage_report::{Counted, make_usage_report};
use crate::moment::{Moment, Setting};
use crate::urr_account::{ActiveRule, Packed, UrrAccount, measures_time};
use crate::urr_checkpoint::{UrrCheckpoint, UrrProgress};
use crate::urr_map::UrrMap;
use crate::urr_state::{Renewed, UrrState};
use crate::usage_report::{UsageInformation, UsageReport, UsageTriggers};

/// Reports of one URR that one look at its events may bring, beside the first: a threshold far below what waits is
/// reported once more with the next event.
const MOST_AT_ONCE: usize = 16;

/// A session's URRs, and what the workers' slots of them count, at one time.
#[derive(Clone, Copy)]
struct Counts<'a> {
    now: Nanos,
    urrs: &'a [Urr],
    counted: &'a [(UrrId, UrrCount)],
}

impl<'a> Counts<'a> {
    fn of(&self, id: UrrId) -> Option<Counted<'a>> {
        let (_, count) = self.counted.iter().find(|(urr, _)| *urr == id)?;
        let urr = self.urrs.iter().find(|urr| urr.id == id)?;
        Some(Counted { urr, count: *count })
    }
}

/// A report that is due, and its reasons.
#[derive(Clone, Copy)]
struct Due {
    urr: UrrId,
    triggers: UsageTriggers,
}

/// The accounts of one session.
#[derive(Clone, Debug)]
pub struct UsageAccounts {
    accounts: UrrMap<Packed>,
    /// As in [`Setting`], side by side with what follows: there are very many accounts.
    epoch_nanos: u64,
    silence: u32,
    /// Whether every bound is as it was sent, for the URRs that were followed last and accounts that have not changed
    /// since: known without reading them.
    are_bounds_sent: bool,
}

impl Default for UsageAccounts {
    /// No accounts, and the usual setting.
    fn default() -> UsageAccounts {
        UsageAccounts::new(Setting::default())
    }
}

impl UsageAccounts {
    /// No accounts.
    pub fn new(setting: Setting) -> UsageAccounts {
        UsageAccounts::of(UrrMap::default(), setting)
    }

    /// Accounts of URRs whose slots had counted so much before: that is not theirs.
    pub fn beginning_at(inherited: &[(UrrId, UrrCount)], now: Nanos, setting: Setting) -> UsageAccounts {
        let account = |(urr, count): &(UrrId, UrrCount)| {
            let account = UrrAccount {
                reported: *count,
                ..UrrAccount::beginning(now.into())
            };
            (*urr, Packed::new(&account))
        };
        UsageAccounts::of(inherited.iter().map(account).collect(), setting)
    }

    fn of(accounts: UrrMap<Packed>, setting: Setting) -> UsageAccounts {
        let Setting { epoch_nanos, silence } = setting;
        UsageAccounts {
            accounts,
            epoch_nanos,
            silence,
            are_bounds_sent: false,
        }
    }

    fn setting(&self) -> Setting {
        Setting {
            epoch_nanos: self.epoch_nanos,
            silence: self.silence,
        }
    }

    fn account(&self, urr: UrrId) -> Option<UrrAccount> {
        self.accounts.get(&urr).map(Packed::account)
    }

    /// Does something with the account of `urr`, if it has one.
    fn change<R>(&mut self, urr: UrrId, change: impl FnOnce(&mut UrrAccount) -> R) -> Option<R> {
        let packed = self.accounts.get_mut(&urr)?;
        self.are_bounds_sent = false;
        let mut account = packed.account();
        let result = change(&mut account);
        packed.set(&account);
        Some(result)
    }

    /// The same with its state, if it has one.
    fn change_state<R>(&mut self, urr: UrrId, change: impl FnOnce(&mut UrrState) -> R) -> Option<R> {
        let packed = self.accounts.get_mut(&urr).filter(|packed| packed.acts())?;
        self.are_bounds_sent = false;
        let mut account = packed.account();
        let result = account.state_mut().map(change);
        packed.set(&account);
        result
    }

    /// Opens an account for each of `urrs` that has none, closes those of URRs that are gone, and continues the others
    /// with what a request has `renewed`.
    pub fn update(&mut self, now: Nanos, urrs: &[Urr], renewed: &[(UrrId, Renewed)]) {
        self.update_with_bounds(now, urrs, renewed, &[]);
    }

    /// The same; `bounds`, by slot, are those that the counters have been given with these rules.
    pub fn update_with_bounds(
        &mut self,
        now: Nanos,
        urrs: &[Urr],
        renewed: &[(UrrId, Renewed)],
        bounds: &[Bounds],
    ) {
        let (now, setting) = (Moment::from(now), self.setting());
        self.accounts.reserve(urrs.len());
        let mut are_bounds_sent = true;
        for (urr, bounds) in by_urr(urrs, bounds) {
            let mut update = |account: &mut UrrAccount| {
                let new = renewed.iter().find(|(id, _)| *id == urr.id);
                account.update(urr, new.map(|(_, what)| *what), now, setting);
                if let (Some(acting), Some(bounds)) = (&mut account.acting, bounds) {
                    acting.sent_bounds = Some(bounds);
                }
                are_bounds_sent &= account.are_bounds_sent(urr);
            };
            let mut begin = || {
                let mut account = UrrAccount::beginning(now);
                update(&mut account);
                // Nothing was measured before there was the URR.
                if let Some(state) = account.state_mut() {
                    state.has_nothing_to_report();
                }
                account
            };
            match self.accounts.get_mut(&urr.id) {
                None => self.accounts.insert(urr.id, Packed::new(&begin())),
                Some(packed) => {
                    let mut account = packed.account();
                    update(&mut account);
                    packed.set(&account);
                }
            }
        }
        self.accounts
            .retain(|known| urrs.iter().any(|urr| urr.id == known));
        self.are_bounds_sent = are_bounds_sent;
        self.pace_pools(now, urrs);
    }

    /// Closes the accounts of these URRs, whose slots have ended: one of the same number is another one.
    pub fn close(&mut self, urrs: &[UrrId]) {
        self.accounts.retain(|known| !urrs.contains(&known));
    }

    /// Packets of a URR came then, which are counted and yet to be reported.
    pub fn record_packet_times(&mut self, urr: UrrId, times: PacketTimes) {
        self.change(urr, |account| account.record_packet_times(times));
    }

    /// Reports what was counted since the last report, and starts the next measurement; unless the reasons call for no
    /// measurement, which then continues.
    pub fn report(&mut self, now: Nanos, counted: Counted<'_>, triggers: UsageTriggers) -> UsageReport {
        let report = |account: &mut UrrAccount| make_usage_report(account, now.into(), counted, triggers);
        self.change(counted.urr.id, report).unwrap_or_else(|| {
            let mut account = UrrAccount::default();
            let first = report(&mut account);
            self.accounts.insert(counted.urr.id, Packed::new(&account));
            self.are_bounds_sent = false;
            first
        })
    }

    /// The same, unless there is nothing to report: then no number is used up.
    pub fn report_if_any(
        &mut self,
        now: Nanos,
        counted: Counted<'_>,
        triggers: UsageTriggers,
    ) -> Option<UsageReport> {
        (!self.is_null(now, counted)).then(|| self.report(now, counted, triggers))
    }

    /// Whether nothing was measured since the last report.
    fn is_null(&self, now: Nanos, Counted { urr, count }: Counted<'_>) -> bool {
        let account = self.account(urr.id);
        account.is_none_or(|account| account.has_measured_nothing(now.into(), count))
    }

    /// The reports that the control plane has queried, for these reasons, and those of the URRs that are linked to
    /// them, of all that has anything to report (TS 29.244 §5.2.2.3.1). `counted` is what the session's slots count.
    pub fn query(
        &mut self,
        now: Nanos,
        urrs: &[Urr],
        counted: &[(UrrId, UrrCount)],
        queried: &[(UrrId, UsageTriggers)],
    ) -> Vec<UsageReport> {
        let counts = Counts { now, urrs, counted };
        let mut due = Vec::new();
        for (urr, why) in queried {
            if let Some(counted) = counts.of(*urr) {
                let triggers = self.evaluate_urr(now, urrs, counted, Reached::NOTHING) | *why;
                due.push(Due { urr: *urr, triggers });
            }
        }
        self.join_linked(counts, &mut due);
        self.remove_null(counts, &mut due);
        self.report_all(counts, &due)
    }

    /// The reports of URRs that are linked to `ended`, whose last reports are made (TS 29.244 §5.2.2.4), of all that
    /// have anything to report.
    pub fn report_linked(
        &mut self,
        now: Nanos,
        urrs: &[Urr],
        counted: &[(UrrId, UrrCount)],
        ended: &[UrrId],
    ) -> Vec<UsageReport> {
        let counts = Counts { now, urrs, counted };
        let of_ended = |urr: &UrrId| Due {
            urr: *urr,
            triggers: UsageTriggers::TERMR,
        };
        let mut due: Vec<_> = ended.iter().map(of_ended).collect();
        self.join_linked(counts, &mut due);
        due.drain(..ended.len());
        self.remove_null(counts, &mut due);
        self.report_all(counts, &due)
    }

    /// Removes those of `due` that are only queried and have nothing to report.
    fn remove_null(&self, counts: Counts<'_>, due: &mut Vec<Due>) {
        let is_queried = |triggers: UsageTriggers| {
            let only = UsageTriggers::IMMER | UsageTriggers::TERMR | UsageTriggers::LIUSA;
            triggers.0 & !only.0 == 0
        };
        due.retain(|due| {
            let counted = counts.of(due.urr);
            let is_null = counted.is_none_or(|counted| self.is_null(counts.now, counted));
            !(is_null && is_queried(due.triggers))
        });
    }

    /// Evaluates these counts, and what counters have `reached` beside. Gives the reports that are due: of events, of
    /// which a report has as many as the threshold is, perhaps several.
    pub fn evaluate(
        &mut self,
        now: Nanos,
        urrs: &[Urr],
        counted: &[(UrrId, UrrCount)],
        reached: &[(UrrId, Reached)],
    ) -> Vec<UsageReport> {
        let counts = Counts { now, urrs, counted };
        let mut reports = self.evaluate_once(counts, reached);
        for _ in 0..MOST_AT_ONCE {
            if !self.has_events_due(counts) {
                break;
            }
            reports.extend(self.evaluate_once(counts, &[]));
        }
        reports
    }

    /// Whether more events wait than a threshold is.
    fn has_events_due(&self, counts: Counts<'_>) -> bool {
        let counting = counts.urrs.iter().filter(|urr| urr.counts_events());
        let mut counted = counting.filter_map(|urr| counts.of(urr.id));
        counted.any(|Counted { urr, count }| {
            self.account(urr.id).is_some_and(|account| {
                let state = account.acting.as_ref().map(|acting| &acting.state);
                state.is_some_and(|state| state.has_events_due(urr, account.raw(count)))
            })
        })
    }

    fn evaluate_once(&mut self, counts: Counts<'_>, reached: &[(UrrId, Reached)]) -> Vec<UsageReport> {
        let mut due = Vec::new();
        for (id, _) in counts.counted {
            let reached = reached.iter().filter(|(urr, _)| urr == id);
            let reached = reached.fold(Reached::NOTHING, |all, (_, one)| all.with(*one));
            if let Some(counted) = counts.of(*id) {
                let triggers = self.evaluate_urr(counts.now, counts.urrs, counted, reached);
                if !triggers.is_empty() {
                    due.push(Due { urr: *id, triggers });
                }
            }
        }
        self.join_linked(counts, &mut due);
        self.report_all(counts, &due)
    }

    fn evaluate_urr(
        &mut self,
        now: Nanos,
        urrs: &[Urr],
        Counted { urr, count }: Counted<'_>,
        reached: Reached,
    ) -> UsageTriggers {
        let (now, setting) = (Moment::from(now), self.setting());
        let evaluate = |account: &mut UrrAccount| {
            account.detect_restart(count);
            let used = account.used(count);
            let is_null = account.has_measured_nothing(now, count);
            let state = account.state_mut()?;
            if is_null {
                state.has_nothing_to_report();
            }
            let measured = state.measured_at(now);
            let triggers = state.evaluate(urr, &used, reached, now, setting);
            Some((triggers, state.measured_at(now).saturating_sub(measured)))
        };
        let Some((triggers, more)) = self.change(urr.id, evaluate).flatten() else {
            return UsageTriggers::default();
        };
        self.correct_pools(urrs, urr.id, more);
        self.pace_pools(now, urrs);
        triggers
    }

    /// The measured time of a member turns out to be so much more, or less, in its pools, too.
    fn correct_pools(&mut self, urrs: &[Urr], member: UrrId, more: i64) {
        if more == 0 {
            return;
        }
        for pool in urrs {
            let members = pool.pool().unwrap_or_default().iter();
            for one in members.filter(|one| one.urr == member) {
                self.change_state(pool.id, |state| state.correct(more, one.multiplier));
            }
        }
    }

    /// The time of each credit pool runs as fast as the times of its members together (TS 29.244 §5.2.2.3.2).
    fn pace_pools(&mut self, now: Moment, urrs: &[Urr]) {
        for pool in urrs {
            let Some(members) = pool.pool().filter(|_| measures_time(pool)) else {
                continue;
            };
            let runs = |urr: UrrId| {
                let acting = self.account(urr).and_then(|account| account.acting);
                acting.is_some_and(|acting| acting.state.running.is_some())
            };
            let running = members.iter().filter(|one| runs(one.urr));
            let rate = running.fold(0, |rate: u64, one| {
                rate.saturating_add(one.multiplier.billionths())
            });
            self.change_state(pool.id, |state| state.run_at(pool, rate, now));
        }
    }

    /// Adds the URRs that report because one of `due` does (TS 29.244 §5.2.2.4), each once.
    fn join_linked(&mut self, counts: Counts<'_>, due: &mut Vec<Due>) {
        let mut index = 0;
        while let Some(cause) = due.get(index).map(|due| due.urr) {
            index += 1;
            for urr in counts.urrs.iter().filter(|urr| is_linked(urr, cause)) {
                if let Some(known) = due.iter_mut().find(|due| due.urr == urr.id) {
                    known.triggers |= UsageTriggers::LIUSA;
                } else if let Some(counted) = counts.of(urr.id) {
                    let triggers = self.evaluate_urr(counts.now, counts.urrs, counted, Reached::NOTHING);
                    due.push(Due {
                        urr: urr.id,
                        triggers: triggers | UsageTriggers::LIUSA,
                    });
                }
            }
        }
    }

    fn report_all(&mut self, counts: Counts<'_>, due: &[Due]) -> Vec<UsageReport> {
        let mut reports = Vec::new();
        for Due { urr, triggers } in due {
            if let Some(counted) = counts.of(*urr) {
                let report = self.report(counts.now, counted, *triggers);
                if triggers.contains(UsageTriggers::MONIT) {
                    let after = self.pass_monitoring(counts.now, counted);
                    reports.push(UsageReport {
                        information: Some(UsageInformation::BEF),
                        ..report
                    });
                    reports.push(after);
                } else {
                    reports.push(report);
                }
            }
        }
        reports
    }

    /// Beside the report of usage before a monitoring time goes that of usage after it, which has only begun
    /// (TS 29.244 §5.2.2.3.1).
    fn pass_monitoring(&mut self, now: Nanos, counted: Counted<'_>) -> UsageReport {
        let epoch_nanos = self.epoch_nanos;
        self.change_state(counted.urr.id, |state| {
            state.monitored(counted.urr, now.into(), epoch_nanos);
        });
        UsageReport {
            information: Some(UsageInformation::AFT),
            ..self.report(now, counted, UsageTriggers::MONIT)
        }
    }

    /// The process's clock has another epoch ([`Setting::epoch_nanos`]): monitoring times that have not come yet come
    /// at other moments. Whether there are any, so that there may be another [`deadline`](Self::deadline).
    pub fn redate(&mut self, urrs: &[Urr], epoch_nanos: u64) -> bool {
        let old = std::mem::replace(&mut self.epoch_nanos, epoch_nanos);
        let mut is_other = false;
        for urr in urrs
            .iter()
            .filter(|urr| urr.terms().monitoring_times().next().is_some())
        {
            let redate = |state: &mut UrrState| state.redate(urr, old, epoch_nanos);
            is_other |= self.change_state(urr.id, redate).unwrap_or(false);
        }
        is_other
    }

    /// What the time makes due: quotas of time end at once, reports wait for the counts ([`evaluate`](Self::evaluate)).
    pub fn tick(&mut self, now: Nanos, urrs: &[Urr]) {
        for urr in urrs {
            self.change_state(urr.id, |state| state.tick(urr, now.into()));
        }
        self.pace_pools(now.into(), urrs);
    }

    /// Downlink packets of a URR were dropped, as many as its threshold says: a report is due. Whether it is one that
    /// does something by itself.
    pub fn dropped(&mut self, urr: UrrId) -> bool {
        self.change_state(urr, UrrState::dropped).is_some()
    }

    /// When the accounts are to be checked again, if nothing happens before.
    pub fn deadline(&self, urrs: &[Urr]) -> Option<Nanos> {
        let deadline = |urr: &Urr| {
            let packed = self.accounts.get(&urr.id).filter(|packed| packed.has_times())?;
            packed.account().acting?.state.deadline(urr, self.setting())
        };
        urrs.iter().filter_map(deadline).min().map(Moment::on_clock)
    }

    /// Whether any URR does something by itself.
    pub fn acts(&self) -> bool {
        self.accounts.values().any(Packed::acts)
    }

    /// Whether a report of one URR calls for reports of others.
    pub fn has_links(urrs: &[Urr]) -> bool {
        urrs.iter()
            .any(|urr| urr.triggers.contains(ReportingTriggers::LIUSA))
    }

    /// Whether a report of one of `ended` calls for reports of others of `urrs`.
    pub fn has_links_to(urrs: &[Urr], ended: &[UrrId]) -> bool {
        let others = urrs.iter().filter(|urr| !ended.contains(&urr.id));
        let mut pairs = others.flat_map(|urr| ended.iter().map(move |cause| (urr, *cause)));
        pairs.any(|(urr, cause)| is_linked(urr, cause))
    }

    /// The last report of a URR whose slot is gone: with what it counted, if that is known, else with what is known
    /// without it.
    pub fn last(
        &mut self,
        now: Nanos,
        urr: &Urr,
        counted: Option<UrrCount>,
        triggers: UsageTriggers,
    ) -> UsageReport {
        let reported = self.account(urr.id).map(|account| account.reported);
        let reported = reported.unwrap_or_default();
        // A slot that counted less than was reported of it is another one: nothing is known of it.
        let count = combine(counted.unwrap_or(reported), reported, u64::max);
        self.report(now, Counted { urr, count }, triggers)
    }

    /// A report was added to the one before it: its numbers are given again, if no later ones have been given.
    pub fn recall(&mut self, report: &UsageReport) {
        self.change(report.urr, |account| {
            if account.next == report.next_sequence() {
                account.next = report.sequence;
            }
        });
    }

    /// Packets came before QoS enforcement, of which nothing was known before.
    pub fn add_before_qos(&mut self, counts: &[(UrrId, UrrCount)]) {
        for (urr, count) in counts {
            self.change(*urr, |account| {
                let known = account.before_qos.unwrap_or_default();
                account.before_qos = Some(sum(known, *count));
            });
        }
    }

    /// The state of the accounts, with what the worker's slots of the URRs count now.
    pub fn checkpoints(&self, counted: &[(UrrId, UrrCount)]) -> Vec<UrrCheckpoint> {
        let of = |urr| counted.iter().find(|(id, _)| *id == urr).map(|(_, count)| *count);
        let checkpoint = |(&urr, packed): (&UrrId, &Packed)| {
            let account = packed.account();
            let count = of(urr).unwrap_or(account.reported);
            UrrCheckpoint {
                urr,
                next: account.next,
                since: account.since,
                count: account.raw(count),
                unit: account.unit(),
                rest: account.rest,
                times: account.times,
                before_qos: account.before_qos,
                state: account.acting.map(|acting| acting.state),
            }
        };
        self.accounts.iter().map(checkpoint).collect()
    }

    /// What a URR has counted whose slot in the worker counts `count` now. `None` of a count from before what was
    /// reported last, and of a URR that the session has not.
    pub fn progress(&self, urr: UrrId, count: UrrCount) -> Option<UrrProgress> {
        let account = self.accounts.get(&urr)?.account();
        let is_behind = |part: fn(&UrrCount) -> u64| part(&count) < part(&account.reported);
        if is_behind(|count| count.ul_octets) || is_behind(|count| count.dl_octets) {
            return None;
        }
        Some(UrrProgress {
            urr,
            next: account.next,
            since: account.since,
            count: account.raw(count),
            unit: account.unit(),
        })
    }

    /// Accounts that continue from `checkpoints` with slots that count from 0.
    pub fn resuming(checkpoints: &[UrrCheckpoint], setting: Setting) -> UsageAccounts {
        let account = |one: &UrrCheckpoint| UrrAccount {
            unit: if one.unit == Multiplier::ONE { 0 } else { one.unit },
            rest: one.rest,
            reported: UrrCount::default(),
            carried: one.count,
            next: one.next,
            since: one.since,
            times: one.times,
            before_qos: one.before_qos,
            acting: one.state.map(|state| ActiveRule {
                state,
                sent_bounds: None,
            }),
        };
        let packed = |one| Packed::new(&account(one));
        let accounts = checkpoints.iter().map(|one| (one.urr, packed(one)));
        UsageAccounts::of(accounts.collect(), setting)
    }

    /// A worker's slot of `urr` ended with `counted` although the URR lives on: the rest is reported later.
    pub fn carry(&mut self, urr: UrrId, counted: UrrCount) {
        self.change(urr, |account| {
            account.detect_restart(counted);
            account.carried = account.raw(counted);
            account.reported = UrrCount::default();
        });
    }

    /// Another slot of `urr` ended with `counted`, beside the one whose count continues.
    pub fn add(&mut self, urr: UrrId, counted: UrrCount) {
        self.change(urr, |account| account.carried = sum(account.carried, counted));
    }

    /// The same of a slot that counted in other units ([`Urr::unit`]).
    pub fn add_in(&mut self, urr: UrrId, counted: UrrCount, unit: u64) {
        self.change(urr, |account| {
            let others = UrrCount {
                ul_octets: 0,
                dl_octets: 0,
                ..counted
            };
            account.carried = sum(account.carried, others);
            account.add_octets([counted.ul_octets, counted.dl_octets], unit);
        });
    }

    /// The bounds of the counters of `urrs`, by slot; none at all where no URR does anything by itself.
    pub fn bounds(&self, urrs: &[Urr]) -> Vec<Bounds> {
        if !self.acts() {
            return Vec::new();
        }
        let bounds = |urr: &Urr| self.account(urr.id).map(|account| account.bounds(urr));
        let all = urrs.iter().map(|urr| bounds(urr).unwrap_or_default());
        by_slot(urrs, &all.collect::<Vec<_>>())
    }

    /// The bounds that [`update`](Self::update) would lead to.
    pub fn preview_bounds(&self, now: Nanos, urrs: &[Urr], renewed: &[(UrrId, Renewed)]) -> Vec<Bounds> {
        if !urrs.iter().any(UrrState::is_needed) {
            return Vec::new();
        }
        let bounds = urrs
            .iter()
            .map(|urr| self.preview_account(now.into(), urr, renewed));
        by_slot(urrs, &bounds.collect::<Vec<_>>())
    }

    /// The same of one URR, without an account that is thrown away.
    fn preview_account(&self, now: Moment, urr: &Urr, renewed: &[(UrrId, Renewed)]) -> UrrBounds {
        if !UrrState::is_needed(urr) {
            return UrrBounds::NONE;
        }
        let account = self.account(urr.id);
        let known = account.as_ref().map(|account| account.base(urr.unit()));
        let mut base = known.unwrap_or_else(|| UrrAccount::default().base(urr.unit()));
        let state = match account.and_then(|account| account.acting) {
            None => UrrState::begin(urr, now, self.setting()),
            Some(ActiveRule { mut state, .. }) => {
                let new = renewed.iter().find(|(id, _)| *id == urr.id);
                let what = new.map_or(Renewed::default(), |(_, what)| *what);
                state.renew(urr, what, now, self.setting());
                state
            }
        };
        if !urr.counts_events() {
            (base.reported.events, base.carried.events) = (0, 0);
        }
        state.bounds(urr, &base)
    }

    /// The worker was sent these bounds of `urrs`, by slot.
    pub fn set_sent_bounds(&mut self, urrs: &[Urr], bounds: &[Bounds]) {
        for (urr, bounds) in by_urr(urrs, bounds) {
            if let Some(bounds) = bounds {
                self.set_sent(urr.id, bounds);
            }
        }
    }

    fn set_sent(&mut self, urr: UrrId, bounds: UrrBounds) {
        self.change(urr, |account| {
            if let Some(acting) = &mut account.acting {
                acting.sent_bounds = Some(bounds);
            }
        });
    }

    /// What the worker is to be sent: the bounds of all counters that have any, if one of them is not as it was sent
    /// last, or if all are to be set again. They count as sent then. `urrs` are those that were followed last.
    pub fn unsent_bounds(&mut self, urrs: &[Urr], again: bool) -> Vec<(Counter, Bounds)> {
        let are_bounds_sent = |urr: &Urr| {
            self.account(urr.id)
                .is_none_or(|account| account.are_bounds_sent(urr))
        };
        if self.are_bounds_sent && !again {
            debug_assert!(urrs.iter().all(are_bounds_sent), "an account has changed since");
            return Vec::new();
        }
        if !again && urrs.iter().all(are_bounds_sent) {
            self.are_bounds_sent = true;
            return Vec::new();
        }
        let wanted = |urr: &Urr| {
            let account = self.account(urr.id).filter(|account| account.acting.is_some())?;
            Some((urr.id, urr.counts_events(), account.bounds(urr)))
        };
        let wanted: Vec<_> = urrs.iter().filter_map(wanted).collect();
        for (urr, _, bounds) in &wanted {
            self.set_sent(*urr, *bounds);
        }
        let counters = |(urr, counts_events, bounds): (UrrId, bool, UrrBounds)| {
            let events = counts_events.then_some((Counter::Events(urr), bounds.events));
            core::iter::once((Counter::Volume(urr), bounds.volume)).chain(events)
        };
        wanted.into_iter().flat_map(counters).collect()
    }

    /// Whether a URR's counter reports that its volume limits are reached, and that is known; or nothing stops for it.
    pub fn is_stop_known(&self, urr: UrrId, reached: Reached) -> bool {
        let acting = self.account(urr).and_then(|account| account.acting);
        let Reached { limits, trapped, .. } = reached;
        acting.is_none_or(|acting| !trapped && limits != 0 && acting.state.exhausted.0 != 0)
    }
}

/// Whether `urr` reports when `cause` does.
fn is_linked(urr: &Urr, cause: UrrId) -> bool {
    urr.triggers.contains(ReportingTriggers::LIUSA) && urr.terms().linked.contains(&cause)
}

#[cfg(test)]
mod tests;
