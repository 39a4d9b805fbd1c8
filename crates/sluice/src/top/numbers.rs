//! Numbers as people read them: three digits and a unit.

const PREFIXES: [&str; 5] = ["", "k", "M", "G", "T"];

/// A rate with a decimal prefix before its unit: `4.82 Gbit/s`.
pub fn scaled(number: f64, unit: &str) -> String {
    let mut size = number;
    let mut place = 0;
    while size >= 999.5 && place + 1 < PREFIXES.len() {
        size /= 1_000.0;
        place += 1;
    }
    let digits = if size == 0.0 || (place == 0 && size.fract() == 0.0) || size >= 99.95 {
        format!("{size:.0}")
    } else if size >= 9.995 {
        format!("{size:.1}")
    } else {
        format!("{size:.2}")
    };
    format!("{digits} {}{unit}", PREFIXES[place])
}

/// Octets a second as bit/s.
pub fn bits(octets_per_s: f64) -> String {
    scaled(octets_per_s * 8.0, "bit/s")
}

/// Packets a second.
pub fn packets(per_s: f64) -> String {
    scaled(per_s, "p/s")
}

/// A share of 1 in per cent.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Seconds: the two largest parts.
pub fn duration(seconds: u64) -> String {
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let first = parts.iter().position(|(number, _)| *number > 0).unwrap_or(3);
    let shown = parts[first..].iter().take(2).enumerate();
    let words = shown.filter(|(place, (number, _))| *place == 0 || *number > 0);
    words
        .map(|(_, (number, unit))| format!("{number} {unit}"))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        for (number, text) in [
            (0.0, "0 p/s"),
            (7.0, "7 p/s"),
            (7.5, "7.50 p/s"),
            (99.94, "99.9 p/s"),
            (999.4, "999 p/s"),
            (999.6, "1.00 kp/s"),
            (12_345.0, "12.3 kp/s"),
            (4.82e9, "4.82 Gp/s"),
            (4.82e16, "48200 Tp/s"),
        ] {
            assert_eq!(scaled(number, "p/s"), text);
        }
        assert_eq!(bits(125.0), "1.00 kbit/s");
    }

    #[test]
    fn durations_have_two_parts() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (3_600, "1 h"),
            (3_661, "1 h 1 min"),
            (90_061, "1 d 1 h"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }
}
