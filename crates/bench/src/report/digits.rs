//! Numbers in few digits, in full: no unit is hidden in a letter, so that a formula can be computed again.

/// Four significant digits at least, without zeros at the end.
#[must_use]
pub fn digits(value: f64) -> String {
    let places = match value.abs() {
        large if large >= 1_000.0 => 0,
        middle if middle >= 100.0 => 1,
        middle if middle >= 10.0 => 2,
        middle if middle >= 1.0 => 3,
        _ => 4,
    };
    let text = format!("{value:.places$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    match text.split_once('.') {
        Some((whole, rest)) => format!("{}.{rest}", grouped(whole)),
        None => grouped(text),
    }
}

/// A whole number with commas between its thousands.
fn grouped(whole: &str) -> String {
    let (sign, number) = whole
        .strip_prefix('-')
        .map_or(("", whole), |number| ("-", number));
    let mut text = String::new();
    for (place, digit) in number.chars().enumerate() {
        if place > 0 && (number.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_whole() {
        let all = [
            0.0,
            1.0,
            0.9,
            6.3211,
            73.94,
            158.2,
            1_408.0,
            12_345_678.9,
            -0.5,
            0.000_04,
        ];
        let texts = all.map(digits);
        assert_eq!(
            texts,
            [
                "0",
                "1",
                "0.9",
                "6.321",
                "73.94",
                "158.2",
                "1,408",
                "12,345,679",
                "-0.5",
                "0"
            ]
        );
    }
}
