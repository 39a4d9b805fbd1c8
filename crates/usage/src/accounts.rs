//! The accounts of one session's URRs, between the workers' counters and the reports.
//!
//! Workers count; the accounts keep, per URR, how much of the count has been reported, the number of the next report,
//! since when the current measurement runs, and the [`Machine`] of a URR that does something by itself. Each packet is
//! reported exactly once, whatever it is reported for.
//!
//! Accounts lie packed in the accounts ([`Packed`]): what is done with one is done with it taken out, and put back.

mod bounds;

use flow::{Bounds, Nanos, PacketTimes, Reached, UrrCount};
use rules::image::Counter;
use rules::model::{MeasurementInformation, MeasurementMethod, Multiplier, ReportingTriggers, Urr, UrrId};

use self::bounds::by_urr;
use crate::account::{Account, ActiveRule, Packed};
use crate::count::{combine, is_null, sum};
use crate::machine::{Machine, Renewed};
use crate::urr_map::UrrMap;
use crate::{Moment, Seconds, Setting, UsageInformation, UsageReport, UsageTriggers};

/// Where the account of one URR stands: what a session record has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrrCheckpoint {
    /// The URR.
    pub urr: UrrId,
    /// UR-SEQN of its next report.
    pub next: u32,
    /// When the measurement under way began.
    pub since: Moment,
    /// What was counted since then, as the counter counts it.
    pub count: UrrCount,
    /// What an octet in the count is, in billionths of one of usage ([`Urr::unit`]).
    pub unit: u64,
    /// What is left of what was reported in whole octets: uplink and downlink, in billionths of one.
    pub rest: [u64; 2],
    /// When the first and the last packet of that came, as far as it is known.
    pub times: Option<(Moment, Moment)>,
    /// What came before QoS enforcement since then, of a URR that tells of it.
    pub before_qos: Option<UrrCount>,
    /// How far its thresholds, quotas and times are, if it has any.
    pub machine: Option<Machine>,
}

impl UrrCheckpoint {
    /// What was used since then, in whole octets.
    pub fn used(&self) -> UrrCount {
        let account = Account {
            unit: self.unit,
            rest: self.rest,
            ..Account::default()
        };
        account.used(self.count).count
    }
}

/// A worker's count of one URR, since its slot began.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// The URR.
    pub urr: &'a Urr,
    /// What its slot has counted.
    pub count: UrrCount,
}

/// Reports of one URR that one look at its events may bring, beside the first: a threshold far below what waits is
/// reported once more with the next event.
const MOST_AT_ONCE: usize = 16;

/// The accounts of one session.
#[derive(Clone, Debug)]
pub struct UsageAccounts {
    accounts: UrrMap<Packed>,
    /// As in [`Setting`], side by side with what follows: there are very many books.
    epoch_nanos: u64,
    silence: u32,
    /// Whether every bound is as it was reached, of the URRs that were followed last and accounts that have not changed
    /// since: known without a look at them.
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
            let account = Account {
                reported: *count,
                ..Account::beginning(now.into())
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

    fn account(&self, urr: UrrId) -> Option<Account> {
        self.accounts.get(&urr).map(Packed::account)
    }

    /// Does something with the account of `urr`, if it has one.
    fn change<R>(&mut self, urr: UrrId, change: impl FnOnce(&mut Account) -> R) -> Option<R> {
        let packed = self.accounts.get_mut(&urr)?;
        self.are_bounds_sent = false;
        let mut account = packed.account();
        let result = change(&mut account);
        packed.set(&account);
        Some(result)
    }

    /// The same with its machine, if it has one.
    fn change_machine<R>(&mut self, urr: UrrId, change: impl FnOnce(&mut Machine) -> R) -> Option<R> {
        let packed = self.accounts.get_mut(&urr).filter(|packed| packed.acts())?;
        self.are_bounds_sent = false;
        let mut account = packed.account();
        let result = account.machine_mut().map(change);
        packed.set(&account);
        result
    }

    /// Opens an account for each of `urrs` that has none, closes those of URRs that are gone, and lets the others go on
    /// with what a request has `renewed`.
    pub fn update(&mut self, now: Nanos, urrs: &[Urr], renewed: &[(UrrId, Renewed)]) {
        self.update_with_bounds(now, urrs, renewed, &[]);
    }

    /// The same, and [`reached`](Self::reached) with it.
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
            let mut update = |account: &mut Account| {
                let new = renewed.iter().find(|(id, _)| *id == urr.id);
                update_account(account, urr, new.map(|(_, what)| *what), now, setting);
                if let (Some(acting), Some(bounds)) = (&mut account.acting, bounds) {
                    acting.sent_bounds = Some(bounds);
                }
                are_bounds_sent &= account.are_bounds_sent(urr);
            };
            let mut begin = || {
                let mut account = Account::beginning(now);
                update(&mut account);
                // Nothing was measured before there was the URR.
                if let Some(machine) = account.machine_mut() {
                    machine.has_nothing_to_report();
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
    /// measurement, which then goes on.
    pub fn report(&mut self, now: Nanos, counted: Counted<'_>, triggers: UsageTriggers) -> UsageReport {
        let report = |account: &mut Account| report(account, now.into(), counted, triggers);
        self.change(counted.urr.id, report).unwrap_or_else(|| {
            let mut account = Account::default();
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
        account.is_none_or(|account| has_measured_nothing(&account, now.into(), count))
    }

    /// The reports that the control plane has asked for, for these reasons, and those of the URRs that are linked to
    /// them, of all that has anything to report (TS 29.244 §5.2.2.3.1). `counted` is what the session's slots count.
    pub fn query(
        &mut self,
        now: Nanos,
        urrs: &[Urr],
        counted: &[(UrrId, UrrCount)],
        asked: &[(UrrId, UsageTriggers)],
    ) -> Vec<UsageReport> {
        let mut due = Vec::new();
        for (id, why) in asked {
            if let Some(counted) = of(urrs, counted, *id) {
                let triggers = self.evaluate_urr(now, urrs, counted, Reached::NOTHING);
                due.push((*id, triggers | *why));
            }
        }
        self.join_linked(now, urrs, counted, &mut due);
        self.without_null(now, urrs, counted, &mut due);
        self.report_all(now, urrs, counted, &due)
    }

    /// The reports of URRs that are linked to `ended`, whose last reports are made (TS 29.244 §5.2.2.4), of all that have
    /// anything to report.
    pub fn report_linked(
        &mut self,
        now: Nanos,
        urrs: &[Urr],
        counted: &[(UrrId, UrrCount)],
        ended: &[UrrId],
    ) -> Vec<UsageReport> {
        let mut due: Vec<_> = ended.iter().map(|urr| (*urr, UsageTriggers::TERMR)).collect();
        self.join_linked(now, urrs, counted, &mut due);
        due.drain(..ended.len());
        self.without_null(now, urrs, counted, &mut due);
        self.report_all(now, urrs, counted, &due)
    }

    /// Takes those of `due` away that are only asked for and have nothing to report.
    fn without_null(
        &self,
        now: Nanos,
        urrs: &[Urr],
        counted: &[(UrrId, UrrCount)],
        due: &mut Vec<(UrrId, UsageTriggers)>,
    ) {
        let is_asked = |triggers: &UsageTriggers| {
            let only = UsageTriggers::IMMER | UsageTriggers::TERMR | UsageTriggers::LIUSA;
            triggers.0 & !only.0 == 0
        };
        due.retain(|(id, triggers)| {
            let nothing = of(urrs, counted, *id).is_none_or(|counted| self.is_null(now, counted));
            !(nothing && is_asked(triggers))
        });
    }

    /// Draws the consequences of these counts, and of what counters have `reached` beside. Gives the reports that are due:
    /// of events, of which a report has as many as the threshold is, perhaps several.
    pub fn evaluate(
        &mut self,
        now: Nanos,
        urrs: &[Urr],
        counted: &[(UrrId, UrrCount)],
        reached: &[(UrrId, Reached)],
    ) -> Vec<UsageReport> {
        let mut reports = self.evaluate_once(now, urrs, counted, reached);
        for _ in 0..MOST_AT_ONCE {
            if !self.has_events_due(urrs, counted) {
                break;
            }
            reports.extend(self.evaluate_once(now, urrs, counted, &[]));
        }
        reports
    }

    /// Whether more events wait than a threshold is.
    fn has_events_due(&self, urrs: &[Urr], counted: &[(UrrId, UrrCount)]) -> bool {
        let counting = urrs.iter().filter(|urr| urr.counts_events());
        let mut counted = counting.filter_map(|urr| of(urrs, counted, urr.id));
        counted.any(|Counted { urr, count }| {
            self.account(urr.id).is_some_and(|account| {
                let machine = account.acting.as_ref().map(|acting| &acting.machine);
                machine.is_some_and(|machine| machine.has_events_due(urr, account.raw(count)))
            })
        })
    }

    fn evaluate_once(
        &mut self,
        now: Nanos,
        urrs: &[Urr],
        counted: &[(UrrId, UrrCount)],
        reached: &[(UrrId, Reached)],
    ) -> Vec<UsageReport> {
        let mut due = Vec::new();
        for (id, _) in counted {
            let reached = reached.iter().filter(|(urr, _)| urr == id);
            let reached = reached.fold(Reached::NOTHING, |all, (_, one)| all.with(*one));
            if let Some(counted) = of(urrs, counted, *id) {
                let triggers = self.evaluate_urr(now, urrs, counted, reached);
                if !triggers.is_empty() {
                    due.push((*id, triggers));
                }
            }
        }
        self.join_linked(now, urrs, counted, &mut due);
        self.report_all(now, urrs, counted, &due)
    }

    fn evaluate_urr(
        &mut self,
        now: Nanos,
        urrs: &[Urr],
        Counted { urr, count }: Counted<'_>,
        reached: Reached,
    ) -> UsageTriggers {
        let (now, setting) = (Moment::from(now), self.setting());
        let evaluate = |account: &mut Account| {
            account.detect_restart(count);
            let used = account.used(count);
            let is_null = has_measured_nothing(account, now, count);
            let machine = account.machine_mut()?;
            if is_null {
                machine.has_nothing_to_report();
            }
            let measured = machine.measured_at(now);
            let triggers = machine.evaluate(urr, (used, reached), (now, setting));
            Some((triggers, machine.measured_at(now).saturating_sub(measured)))
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
                self.change_machine(pool.id, |machine| machine.correct(more, one.multiplier));
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
                acting.is_some_and(|acting| acting.machine.running.is_some())
            };
            let running = members.iter().filter(|one| runs(one.urr));
            let rate = running.fold(0, |rate: u64, one| {
                rate.saturating_add(one.multiplier.billionths())
            });
            self.change_machine(pool.id, |machine| machine.run_at(pool, rate, now));
        }
    }

    /// Adds the URRs that report because one of `due` does (TS 29.244 §5.2.2.4), each once.
    fn join_linked(
        &mut self,
        now: Nanos,
        urrs: &[Urr],
        counted: &[(UrrId, UrrCount)],
        due: &mut Vec<(UrrId, UsageTriggers)>,
    ) {
        let mut place = 0;
        while let Some((cause, _)) = due.get(place).copied() {
            place += 1;
            for urr in urrs.iter().filter(|urr| is_linked(urr, cause)) {
                if let Some((_, triggers)) = due.iter_mut().find(|(id, _)| *id == urr.id) {
                    *triggers |= UsageTriggers::LIUSA;
                } else if let Some(counted) = of(urrs, counted, urr.id) {
                    let triggers = self.evaluate_urr(now, urrs, counted, Reached::NOTHING);
                    due.push((urr.id, triggers | UsageTriggers::LIUSA));
                }
            }
        }
    }

    fn report_all(
        &mut self,
        now: Nanos,
        urrs: &[Urr],
        counted: &[(UrrId, UrrCount)],
        due: &[(UrrId, UsageTriggers)],
    ) -> Vec<UsageReport> {
        let mut reports = Vec::new();
        for (id, triggers) in due {
            if let Some(counted) = of(urrs, counted, *id) {
                let report = self.report(now, counted, *triggers);
                if triggers.contains(UsageTriggers::MONIT) {
                    let after = self.pass_monitoring(now, counted);
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
        self.change_machine(counted.urr.id, |machine| {
            machine.monitored(counted.urr, now.into(), epoch_nanos);
        });
        UsageReport {
            information: Some(UsageInformation::AFT),
            ..self.report(now, counted, UsageTriggers::MONIT)
        }
    }

    /// The process's clock has another epoch ([`Setting::epoch_nanos`]): monitoring times that have not come yet come at
    /// other moments. Whether there are any, so that there may be another [`deadline`](Self::deadline).
    pub fn redate(&mut self, urrs: &[Urr], epoch_nanos: u64) -> bool {
        let epochs = (std::mem::replace(&mut self.epoch_nanos, epoch_nanos), epoch_nanos);
        let mut is_other = false;
        for urr in urrs
            .iter()
            .filter(|urr| urr.terms().monitoring_times().next().is_some())
        {
            let redate = |machine: &mut Machine| machine.redate(urr, epochs);
            is_other |= self.change_machine(urr.id, redate).unwrap_or(false);
        }
        is_other
    }

    /// What the time makes due: quotas of time end at once, reports wait for the counts ([`evaluate`](Self::evaluate)).
    pub fn tick(&mut self, now: Nanos, urrs: &[Urr]) {
        for urr in urrs {
            self.change_machine(urr.id, |machine| machine.tick(urr, now.into()));
        }
        self.pace_pools(now.into(), urrs);
    }

    /// Downlink packets of a URR were dropped, as many as its threshold says: a report is due. Whether it is one that
    /// does something by itself.
    pub fn dropped(&mut self, urr: UrrId) -> bool {
        self.change_machine(urr, Machine::dropped).is_some()
    }

    /// When the accounts is to be checked at again, if nothing happens before.
    pub fn deadline(&self, urrs: &[Urr]) -> Option<Nanos> {
        let deadline = |urr: &Urr| {
            let packed = self.accounts.get(&urr.id).filter(|packed| packed.has_times())?;
            packed.account().acting?.machine.deadline(urr, self.setting())
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

    /// Where the accounts stand, with what the worker's slots of the URRs count now.
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
                machine: account.acting.map(|acting| acting.machine),
            }
        };
        self.accounts.iter().map(checkpoint).collect()
    }

    /// Accounts that go on from `checkpoints` with slots that count from 0.
    pub fn resuming(checkpoints: &[UrrCheckpoint], setting: Setting) -> UsageAccounts {
        let account = |one: &UrrCheckpoint| Account {
            unit: if one.unit == Multiplier::ONE { 0 } else { one.unit },
            rest: one.rest,
            reported: UrrCount::default(),
            carried: one.count,
            next: one.next,
            since: one.since,
            times: one.times,
            before_qos: one.before_qos,
            acting: one.machine.map(|machine| ActiveRule {
                machine,
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

    /// Another slot of `urr` ended with `counted`, beside the one whose count goes on.
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
}

/// Whether nothing was measured since the last report.
fn has_measured_nothing(account: &Account, now: Moment, count: UrrCount) -> bool {
    let seconds = |acting: &ActiveRule| acting.machine.seconds(now);
    let measured = account.acting.as_ref().map_or(Seconds(0), seconds);
    is_null(account.raw(count)) && account.before_qos.is_none() && measured == Seconds(0)
}

/// What a request means for one account: the terms of its URR that it gives anew, if it names it.
fn update_account(account: &mut Account, urr: &Urr, renewed: Option<Renewed>, now: Moment, setting: Setting) {
    if !urr.measures_before_qos() {
        account.before_qos = None;
    }
    if account.unit() != urr.unit() {
        account.set_unit(urr.unit());
        let carried = account.carried;
        if let Some(machine) = account.machine_mut() {
            machine.seen = carried.ul_octets.saturating_add(carried.dl_octets);
        }
    }
    if !urr.counts_events() {
        account.forget_events();
    }
    if !Machine::is_needed(urr) {
        account.acting = None;
        return;
    }
    match &mut account.acting {
        Some(acting) => acting
            .machine
            .renew(urr, renewed.unwrap_or_default(), now, setting),
        None => {
            let machine = Machine::begin(urr, now, setting);
            account.acting = Some(ActiveRule {
                machine,
                sent_bounds: None,
            });
        }
    }
}

/// A report of one account ([`UsageAccounts::report`]).
fn report(
    account: &mut Account,
    now: Moment,
    Counted { urr, count }: Counted<'_>,
    triggers: UsageTriggers,
) -> UsageReport {
    if UsageTriggers::MEASURE_NOTHING.contains(triggers) && !triggers.is_empty() {
        if let Some(machine) = account.machine_mut() {
            machine.reported_moment(triggers);
        }
        return account.report_moment(urr, triggers, now);
    }
    account.detect_restart(count);
    let all = account.used(count);
    let mut used = all.count;
    let all_events = used.events;
    if let Some(machine) = account.machine_mut() {
        used.events = machine.events_to_report(used, triggers);
    }
    let machine = account.machine_mut();
    let duration = machine
        .filter(|_| measures_time(urr))
        .map(|machine| machine.seconds(now));
    if let Some(machine) = account.machine_mut() {
        machine.reported((used, duration.unwrap_or_default()), triggers, now);
    }
    let times = account.times.take().filter(|_| !is_null(used));
    let before_qos = account.before_qos.take();
    let report = UsageReport {
        urr: urr.id,
        method: urr.method,
        sequence: account.next,
        triggers,
        count: used,
        before_qos: urr.measures_before_qos().then(|| before_qos.unwrap_or_default()),
        reports_packets: urr.information.contains(MeasurementInformation::MNOP),
        start: account.since,
        end: now,
        duration,
        // Whose millisecond may have begun before the measurement.
        first: times.map(|(first, _)| first.max(account.since)),
        last: times.map(|(_, last)| last.max(account.since)),
        information: None,
    };
    account.rest = all.rest;
    account.reported = count;
    account.carried = UrrCount {
        events: all_events - used.events,
        ..UrrCount::default()
    };
    account.next = report.next_sequence();
    account.since = now;
    report
}

fn measures_time(urr: &Urr) -> bool {
    urr.method.contains(MeasurementMethod::DURAT)
}

/// Whether `urr` reports when `cause` does.
fn is_linked(urr: &Urr, cause: UrrId) -> bool {
    urr.triggers.contains(ReportingTriggers::LIUSA) && urr.terms().linked.contains(&cause)
}

/// The bounds of a session's counters at a worker that has it for a while beside another one, where its counters begin
/// at 0: of what the limits allow, the other, which has `counted` so much, has kept half.
pub fn share_limits(counters: &[Counter], bounds: &mut [Bounds], counted: &[(UrrId, UrrCount)]) {
    for (counter, bounds) in counters.iter().zip(bounds) {
        let count = counted.iter().find(|(id, _)| *id == counter.urr());
        let count = count.map(|(_, count)| *count).unwrap_or_default();
        let [total, uplink, downlink] = match counter {
            Counter::Volume(_) => [
                count.ul_octets.saturating_add(count.dl_octets),
                count.ul_octets,
                count.dl_octets,
            ],
            Counter::Events(_) => [count.events, 0, 0],
        };
        let rest = |limit: Option<u64>, used: u64| {
            limit.map(|limit| {
                let left = limit.saturating_sub(used);
                left - left / 2
            })
        };
        if let Some(limit) = &mut bounds.limit {
            limit.octets.total = rest(limit.octets.total, total);
            limit.octets.uplink = rest(limit.octets.uplink, uplink);
            limit.octets.downlink = rest(limit.octets.downlink, downlink);
        }
    }
}

fn of<'a>(urrs: &'a [Urr], counted: &[(UrrId, UrrCount)], id: UrrId) -> Option<Counted<'a>> {
    let (_, count) = counted.iter().find(|(urr, _)| *urr == id)?;
    let urr = urrs.iter().find(|urr| urr.id == id)?;
    Some(Counted { urr, count: *count })
}

#[cfg(test)]
mod tests;
