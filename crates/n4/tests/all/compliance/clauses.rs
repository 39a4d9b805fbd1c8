//! The clauses of TS 29.244 V17.7.1 that a document has to name, and which of them it does.

/// Every clause of §4.2 to §8.1 without clauses of its own, introductions and void ones left out; and §8.2.25.
pub const ALL: &str = "\
    4.2.1 4.2.2 4.2.3 4.3.1 4.3.2 4.3.3 5.2.1 5.2.1A.1 5.2.1A.2 5.2.1A.2A 5.2.1A.3 5.2.1A.4 5.2.2.1 5.2.2.2.1 \
    5.2.2.2.2 5.2.2.3.1 5.2.2.3.2 5.2.2.3.3 5.2.2.4 5.2.2.5 5.2.3.1 5.2.4.1 5.2.4.2 5.2.5.1 5.2.5.2 5.2.5.3 5.2.6 \
    5.2.7.1 5.2.8.1 5.2.8.2.1 5.2.8.3.1 5.2.9 5.3.1 5.3.2 5.3.3.1 5.3.3.2 5.3.3.3 5.3.4.1 5.3.4.2 5.3.4.3 5.3.5.1 \
    5.3.5.2 5.3.5.3 5.4.1 5.4.2 5.4.3 5.4.4 5.4.5 5.4.6 5.4.7 5.4.8 5.4.9 5.4.10 5.4.11 5.4.12 5.4.13 5.4.14 \
    5.4.15.1 5.4.15.2 5.4.15.3 5.4.16.1 5.4.16.2 5.4.16.3 5.5.1 5.5.3 5.6.1 5.6.2 5.6.3 5.7.1 5.7.2 5.7.3 5.8.1 \
    5.8.2 5.8.3 5.9 5.10 5.11.1 5.11.2 5.11.3 5.12 5.13.1 5.13.2 5.13.3 5.13.3A 5.13.4 5.13.5 5.13.6 5.14 5.15 \
    5.16 5.17.1 5.17.2 5.17.3 5.18.1 5.18.2 5.19 5.20.1 5.20.2.1 5.20.2.2 5.20.2.3 5.20.2.4 5.20.3.1 5.20.4.1 \
    5.20.4.2 5.20.5 5.20.6 5.21.1 5.21.2.1 5.21.2.2 5.21.3.1 5.21.3.2 5.22.1 5.22.2 5.22.3 5.22.4 5.23 5.24.1 \
    5.24.2.1 5.24.2.2 5.24.2.3 5.24.2.4 5.24.3 5.24.4.1 5.24.4.2 5.24.4.3 5.24.5.1 5.24.5.2 5.24.5.3 5.24.5.4 5.25 \
    5.26.1 5.26.2 5.26.3 5.26.4 5.27 5.28.1 5.29 5.30 5.31.1 5.31.2 5.31.3 5.32.1 5.32.2 5.32.3 5.33.1 5.33.2 \
    5.33.3 5.33.4 5.33.5 5.34.1 5.34.2.1 5.34.2.2 5.34.2.3 5.34.2.4 5.34.3.1 5.34.3.2 5.34.3.3 5.35.1 5.36.1 \
    5.36.2 6.2.1 6.2.2.1 6.2.2.2 6.2.2.3 6.2.3.1 6.2.3.2 6.2.3.3.1 6.2.3.3.2 6.2.3.3.3 6.2.4.1 6.2.4.2 6.2.4.3.1 \
    6.2.4.3.2 6.2.4.3.3 6.2.4.4.1 6.2.4.4.2 6.2.4.5.1 6.2.4.5.2 6.2.5.1 6.2.5.2 6.2.5.3 6.2.6.1 6.2.6.2.1 \
    6.2.6.2.2 6.2.6.3.1 6.2.6.3.2 6.2.7.1 6.2.7.2.1 6.2.7.2.2 6.2.7.3.1 6.2.7.3.2 6.2.8.1 6.2.8.2 6.2.8.3 6.2.9.1 \
    6.2.9.2 6.2.9.3 6.3.1 6.3.2.1 6.3.2.2 6.3.2.3 6.3.3.1 6.3.3.2 6.3.3.3 6.3.4.1 6.3.4.2 6.3.4.3 6.3.5.1 6.3.5.2 \
    6.3.5.3 6.4 6.5 7.1 7.2.1 7.2.1A 7.2.2.1 7.2.2.2 7.2.2.3 7.2.2.4.1 7.2.2.4.2 7.2.3.1 7.2.3.2 7.2.3.3 7.2.3.4 \
    7.3 7.4.1 7.4.2.1 7.4.2.2 7.4.3.1 7.4.3.2 7.4.4.1.1 7.4.4.1.2 7.4.4.1.3 7.4.4.2 7.4.4.3.1 7.4.4.4 7.4.4.5 \
    7.4.4.6 7.4.4.7 7.4.5.1.1 7.4.5.1.2 7.4.5.1.3 7.4.5.1.4 7.4.5.1.5 7.4.5.1.6 7.4.5.1.7 7.4.5.2.1 7.4.6.1 \
    7.4.6.2 7.4.7.1 7.4.7.2 7.5.1 7.5.2.1 7.5.2.2 7.5.2.3 7.5.2.4 7.5.2.5 7.5.2.6 7.5.2.7 7.5.2.8 7.5.2.9 7.5.2.10 \
    7.5.2.11 7.5.3.1 7.5.3.2 7.5.3.3 7.5.3.4 7.5.3.5 7.5.3.6 7.5.3.7 7.5.4.1 7.5.4.2 7.5.4.3 7.5.4.4 7.5.4.5 \
    7.5.4.6 7.5.4.7 7.5.4.8 7.5.4.9 7.5.4.10 7.5.4.11 7.5.4.12 7.5.4.13 7.5.4.14 7.5.4.15 7.5.4.16 7.5.4.17 \
    7.5.4.18 7.5.4.19 7.5.4.20 7.5.4.21 7.5.4.22 7.5.5.1 7.5.5.2 7.5.5.3 7.5.5.4 7.5.5.5 7.5.6 7.5.7.1 7.5.7.2 \
    7.5.8.1 7.5.8.2 7.5.8.3 7.5.8.4 7.5.8.5 7.5.8.6 7.5.9.1 7.5.9.2 7.6.1 7.6.2 7.6.3 7.6.4 7.6.5 7.6.6 7.6.7 \
    7.6.8 7.6.9 7.6.10 8.1.1 8.1.2 8.2.25";

/// A clause by its parts, in the order of the specification.
type Clause = Vec<(u32, String)>;

fn clause(number: &str) -> Clause {
    let parts = number.split('.').map(|part| {
        let digits = part.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        (digits.parse().unwrap(), part.to_owned())
    });
    parts.collect()
}

/// The clauses, and ranges of them, that rows name.
pub struct Covered(Vec<(Clause, Clause)>);

impl Covered {
    /// What these cells name, as `§5.6.3`, `§7.6.6-7.6.10` or `§8.2.1 to §8.2.218`.
    pub fn of<'a>(cells: impl Iterator<Item = &'a String>) -> Covered {
        Covered(cells.flat_map(|cell| ranges(cell)).collect())
    }

    /// Whether a row names `number`, a clause that it is part of, or a range that it is in.
    pub fn has(&self, number: &str) -> bool {
        let wanted = clause(number);
        let starts = |len: usize| &wanted[..len.min(wanted.len())];
        let mut all = self.0.iter();
        all.any(|(first, last)| starts(first.len()) >= &first[..] && starts(last.len()) <= &last[..])
    }
}

fn ranges(cell: &str) -> Vec<(Clause, Clause)> {
    let parts: Vec<&str> = cell.split('§').collect();
    let mut all = Vec::new();
    for (place, part) in parts.iter().enumerate().skip(1) {
        // The clause of another specification, as in `TS 23.007 §19A`.
        if parts[place - 1]
            .trim_end()
            .ends_with(|one: char| one.is_ascii_digit())
        {
            continue;
        }
        let (numbers, behind) = numbers(part);
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        let last = match parts.get(place + 1) {
            Some(next) if behind == " to " => self::numbers(next).0,
            _ => last,
        };
        all.push((clause(first), clause(last)));
    }
    all
}

/// The text before the first space or mark, and the rest.
fn numbers(part: &str) -> (&str, &str) {
    let end = part.find(|one: char| !one.is_ascii_alphanumeric() && one != '.' && one != '-');
    let (numbers, behind) = part.split_at(end.unwrap_or(part.len()));
    (numbers.trim_end_matches('.'), behind)
}
