//! The results in lines of text.

use super::super::targets::short;
use super::charging::Charging;
use super::establishments::Establishments;
use super::outcome::Resilience;
use super::restart::Restart;
use super::storage::Storage;

/// All results, a line each.
#[must_use]
pub fn lines(results: &Resilience) -> Vec<String> {
    let mut lines = vec![format!(
        "{} sessions, {} of them with {} packets of {} octets a second; a write and a sync of 64 KiB in {}: {:.2} ms",
        results.sessions,
        results.active,
        results.rate,
        results.packet_octets,
        results.directory,
        results.sync_nanos as f64 / 1e6
    )];
    lines.push("\nstore with all sessions".into());
    lines.extend(storage(&results.storage));
    lines.push("\ncharging without a kill".into());
    lines.push(charging(&results.undisturbed));
    for (number, restart) in results.restarts.iter().enumerate() {
        lines.push(format!(
            "\nkill -9 under traffic, {} of {}: ms from the kill",
            number + 1,
            results.restarts.len()
        ));
        lines.extend(kill(restart));
    }
    if let Some(measured) = &results.establishments {
        lines.extend(establishments(measured));
    }
    lines
}

fn storage(storage: &Storage) -> Vec<String> {
    let files = storage.disk_octets.saturating_sub(storage.reserve_octets);
    vec![
        format!(
            "  index {:.1} octets a session; records {:.0}, files {:.0} octets a session without the reserve",
            storage.per_session(storage.index_octets),
            storage.per_session(storage.live_octets),
            storage.per_session(files)
        ),
        format!(
            "  files {} MiB, the reserve of {} MiB included; {} octets written in {} syncs; the daemon has {} MiB in memory",
            storage.disk_octets >> 20,
            storage.reserve_octets >> 20,
            short(storage.written_octets as f64),
            storage.syncs,
            storage.resident_octets >> 20
        ),
    ]
}

fn kill(restart: &Restart) -> Vec<String> {
    let ms = |value: Option<f64>| value.map_or("never".into(), |ms| format!("{ms:.0}"));
    let of = &restart.forwarding;
    vec![
        format!(
            "  started {:.0} (the process before had ended), ready {:.0}, all sessions restored {:.0}; reading the log {} ms",
            restart.started_ms,
            restart.ready_ms,
            restart.restored_ms,
            restart.opening_ms.map_or("?".into(), |ms| ms.to_string())
        ),
        format!(
            "  first packet forwarded {}, of half of the sessions with traffic {}, of 99% {}, of all {}",
            ms(of.first_ms),
            ms(of.half_ms),
            ms(of.most_ms),
            ms(of.all_ms)
        ),
        format!(
            "  {} sessions came back, {} of them on demand, {} did not; {} packets in a wrong place, {} Error Indications",
            restart.restored, restart.on_demand, restart.missing, restart.wrong, restart.error_indications
        ),
        format!(
            "  {} of {} packets lost; the daemon has {} MiB in memory",
            restart.lost,
            restart.sent,
            restart.resident_octets >> 20
        ),
        charging(&restart.charging),
    ]
}

fn charging(charging: &Charging) -> String {
    let bound = match charging.bound_octets {
        0 => String::new(),
        bound => format!(", {bound} are allowed"),
    };
    format!(
        "  {} octets sent, {} forwarded, {} charged; {} not charged{bound}, at most {} of a session; charged too much: {} \
         sessions",
        charging.sent_octets,
        charging.forwarded_octets,
        charging.charged_octets,
        charging.lost_octets,
        charging.most_of_a_session,
        charging.overcharged_sessions
    )
}

fn establishments(measured: &Establishments) -> Vec<String> {
    let ms = |of: [f64; 2]| of.map(|nanos| nanos / 1e6);
    let rate = measured.medians(|rate| rate.per_second);
    let cpu = measured.medians(|rate| rate.per_cpu_second);
    let p50 = ms(measured.medians(|rate| rate.delays.p50 as f64));
    let p99 = ms(measured.medians(|rate| rate.delays.p99 as f64));
    let line = |what: &str, at: usize| {
        format!(
            "  {what:<15} {:>7}/s  {:>7} a CPU second of control  p50 {:.2} ms  p99 {:.2} ms",
            short(rate[at]),
            short(cpu[at]),
            p50[at],
            p99[at]
        )
    };
    let (ratio, cpu_ratio) = (measured.ratio, measured.cpu_ratio);
    let rates = measured.pairs.iter().flat_map(|pair| [&pair.with, &pair.without]);
    let turned_away = match rates.map(|rate| rate.turned_away).sum::<u64>() {
        0 => String::new(),
        count => format!("; {count} requests met an overload and were sent again"),
    };
    vec![
        format!(
            "\nestablishments, {} pairs of spans of {} with {} resident, {} requests open: medians",
            measured.pairs.len(),
            measured.span,
            measured.stay,
            measured.window
        ),
        line("with a store", 0),
        line("without", 1),
        format!(
            "  with over without {:.3} ({:.3} to {:.3}), by control's processor time {:.3} ({:.3} to {:.3})\
             {turned_away}",
            ratio.median, ratio.min, ratio.max, cpu_ratio.median, cpu_ratio.min, cpu_ratio.max
        ),
    ]
}
