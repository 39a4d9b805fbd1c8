//! Policers of slices and data networks: rates that the sessions of many UEs share, by configuration.
//!
//! A session passes those of its slice, of its data network, and of the two together. Which these are changes with its
//! slice and with the configuration alone; the rates are the workers' to keep, of which each has a share: in meters,
//! or, of policers that shape, in queues.

use flow::Direction;
use flow::meter::{Chain, Rate, SharedId};

use super::error::NetworkError;
use super::scope::SessionScope;
use crate::model::SNssai;

/// A rate that sessions share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policer {
    /// Its name in the configuration.
    pub name: String,
    /// The sessions that it is for: not all.
    pub scope: SessionScope,
    /// The rate of each [`Direction`].
    pub rates: [Rate; 2],
    /// Whether packets above the rate wait in queues; else they are dropped.
    pub shapes: bool,
    /// If it shapes: its part of what an instance lets pass, of those of other policers and of sessions without, which
    /// have 1; from 1 on.
    pub weight: u8,
}

impl Policer {
    /// The rate of a direction.
    pub const fn rate(&self, direction: Direction) -> Rate {
        self.rates[direction as usize]
    }
}

/// The numbers that policers and chains may take beside those that the first configuration needs, at least.
const SPARE_NUMBERS: u16 = 64;

/// All policers, and the numbers that sessions have which pass some of them: those of workers' meters. The first
/// configuration numbers policers in their order from 1 on, and chains behind them; a later one keeps the numbers of
/// what it has in common with the one before ([`succeeding`](Self::succeeding)).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Policers {
    all: Vec<Policer>,
    /// The numbers of `all`, by place.
    ids: Vec<SharedId>,
    /// Of two or three policers each.
    chains: Vec<NumberedChain>,
    /// Numbers are up to this.
    room: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct NumberedChain {
    id: SharedId,
    chain: Chain,
}

/// Policers and chains need more numbers than workers have meters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoMeter {
    /// How many there are.
    pub room: u16,
}

impl Policers {
    /// The most there may be, so that all chains have numbers.
    pub const MAX: usize = 128;

    /// Of these policers.
    ///
    /// # Errors
    /// [`NetworkError::Policer`]: the first that has no name or another's, is for no slice and no data network or for
    /// the same as another, or is one too many.
    pub fn new(all: Vec<Policer>) -> Result<Self, NetworkError> {
        for (place, policer) in all.iter().enumerate() {
            let clashes = |other: &Policer| other.name == policer.name || other.scope.is_same(&policer.scope);
            let is_bad = policer.name.is_empty() || policer.scope.is_all() || place >= Self::MAX;
            if is_bad || all.iter().take(place).any(clashes) {
                return Err(NetworkError::Policer(policer.name.clone()));
            }
        }
        let ids = (1..).map(SharedId).take(all.len()).collect();
        let mut policers = Self {
            all,
            ids,
            ..Self::default()
        };
        let chains = policers.all_chains();
        let numbers = (1 + policers.all.len() as u16..).map(SharedId);
        let numbered = numbers.zip(chains).map(|(id, chain)| NumberedChain { id, chain });
        policers.chains = numbered.collect();
        policers.room = policers.count() + policers.count().max(SPARE_NUMBERS);
        Ok(policers)
    }

    /// The same policers in the place of `older` ones: a policer keeps the number of its name, a chain that of its
    /// policers. New ones get numbers that `older` does not use, up to those that it has room for.
    ///
    /// # Errors
    /// [`NoMeter`].
    pub fn succeeding(mut self, older: &Self) -> Result<Self, NoMeter> {
        let none = NoMeter { room: older.room };
        let mut free = (1..=older.room).map(SharedId).filter(|id| !older.uses(*id));
        self.room = older.room;
        for (policer, id) in self.all.iter().zip(&mut self.ids) {
            let known = older.all.iter().position(|old| old.name == policer.name);
            let known = known.and_then(|place| older.ids.get(place).copied());
            *id = known.or_else(|| free.next()).ok_or(none)?;
        }
        let mut chains = Vec::new();
        for chain in self.all_chains() {
            let known = older.chains.iter().find(|old| old.chain == chain);
            let id = known.map(|old| old.id).or_else(|| free.next()).ok_or(none)?;
            chains.push(NumberedChain { id, chain });
        }
        self.chains = chains;
        Ok(self)
    }

    /// Whether a policer or a chain has this number.
    pub fn uses(&self, id: SharedId) -> bool {
        self.ids.contains(&id) || self.chains.iter().any(|chain| chain.id == id)
    }

    /// The chains that sessions can have, each once.
    fn all_chains(&self) -> Vec<Chain> {
        let mut chains = Vec::new();
        for with_slice in &self.all {
            for with_dnn in &self.all {
                let dnn = with_dnn.scope.dnn.as_ref().map(String::as_bytes);
                let chain = self.chain(|policer| policer.scope.holds(with_slice.scope.slice, dnn));
                if chain[1] != SharedId::NONE && !chains.contains(&chain) {
                    chains.push(chain);
                }
            }
        }
        chains
    }

    /// The meters of the policers that are wanted, the narrowest first.
    fn chain(&self, is_wanted: impl Fn(&Policer) -> bool) -> Chain {
        let mut wanted: Vec<_> = self
            .numbered()
            .filter(|(_, policer)| is_wanted(policer))
            .collect();
        wanted.sort_by_key(|(_, policer)| policer.scope.breadth());
        let mut chain = Chain::default();
        chain
            .iter_mut()
            .zip(wanted)
            .for_each(|(place, (id, _))| *place = id);
        chain
    }

    /// The number of a chain; that of a single policer is its own.
    fn number(&self, chain: Chain) -> Option<SharedId> {
        if chain[1] == SharedId::NONE {
            return Some(chain[0]);
        }
        self.chains
            .iter()
            .find(|known| known.chain == chain)
            .map(|known| known.id)
    }

    /// Nodes that the policers which shape can have below one instance in one direction: each is below its instance, or
    /// below each broader one that sessions have with it.
    pub fn shaped_nodes(&self) -> usize {
        let singles = self.ids.iter().copied();
        let mut ways: Vec<Vec<SharedId>> = Vec::new();
        for id in singles.chain(self.chains.iter().map(|known| known.id)) {
            let mut way = Vec::new();
            let shaped = self.shaped_of(id).into_iter().rev();
            for policer in shaped.filter(|id| *id != SharedId::NONE) {
                way.push(policer);
                if !ways.contains(&way) {
                    ways.push(way.clone());
                }
            }
        }
        ways.len()
    }

    /// All of them.
    pub fn all(&self) -> &[Policer] {
        &self.all
    }

    /// All of them, each with the number of its meter.
    pub fn numbered(&self) -> impl Iterator<Item = (SharedId, &Policer)> {
        self.ids.iter().copied().zip(&self.all)
    }

    /// Those that meters keep, each with the number of its meter.
    pub fn metered(&self) -> impl Iterator<Item = (SharedId, &Policer)> {
        self.numbered().filter(|(_, policer)| !policer.shapes)
    }

    /// Those that queues keep, each with its number.
    pub fn shaped(&self) -> impl Iterator<Item = (SharedId, &Policer)> {
        self.numbered().filter(|(_, policer)| policer.shapes)
    }

    /// How many numbers are in use.
    pub fn count(&self) -> u16 {
        (self.all.len() + self.chains.len()) as u16
    }

    /// The greatest number that one of these, or of those that succeed them, may have: workers have meters of all.
    pub const fn room(&self) -> u16 {
        self.room
    }

    /// The numbers of chains of several policers, and the meters of each.
    pub fn chains(&self) -> impl Iterator<Item = (SharedId, Chain)> + '_ {
        let metered = |chain| self.part(chain, |policer| !policer.shapes);
        self.chains
            .iter()
            .map(move |known| (known.id, metered(known.chain)))
    }

    /// All policers of a number, the narrowest first.
    fn chain_of(&self, id: SharedId) -> Chain {
        let known = self.chains.iter().find(|known| known.id == id);
        known.map_or([id, SharedId::NONE, SharedId::NONE, SharedId::NONE], |known| {
            known.chain
        })
    }

    fn part(&self, chain: Chain, is_wanted: impl Fn(&Policer) -> bool) -> Chain {
        let is_wanted = |id: &SharedId| {
            let mut all = self.numbered();
            all.any(|(known, policer)| known == *id && is_wanted(policer))
        };
        let mut part = Chain::default();
        let wanted = chain.into_iter().filter(is_wanted);
        part.iter_mut().zip(wanted).for_each(|(place, id)| *place = id);
        part
    }

    /// The number whose meters packets of sessions with this one pass: none, where all of its policers shape.
    pub fn metered_of(&self, id: SharedId) -> SharedId {
        let metered = self.part(self.chain_of(id), |policer| !policer.shapes);
        if metered == Chain::default() {
            SharedId::NONE
        } else {
            id
        }
    }

    /// The policers that shape packets of this number, the narrowest first.
    pub fn shaped_of(&self, id: SharedId) -> Chain {
        self.part(self.chain_of(id), |policer| policer.shapes)
    }

    /// The number of sessions of this slice and data network. The name is as it is or in DNS labels (TS 29.244
    /// §8.2.117), case does not count.
    pub fn of(&self, slice: Option<SNssai>, dnn: Option<&[u8]>) -> SharedId {
        let chain = self.chain(|policer| policer.scope.holds(slice, dnn));
        self.number(chain).unwrap_or(chain[0])
    }

    /// The policers that packets of this number pass.
    pub fn named(&self, id: SharedId) -> impl Iterator<Item = &Policer> {
        self.chain_of(id).into_iter().filter_map(|id| {
            let (_, policer) = self.numbered().find(|(known, _)| *known == id)?;
            Some(policer)
        })
    }

    /// The number of sessions that pass the policers with these names, as far as they are still known.
    pub fn by_names<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> SharedId {
        let chain = self.chain(|policer| names.clone().any(|name| name == policer.name));
        self.number(chain).unwrap_or(chain[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Network;

    const A: SNssai = SNssai {
        sst: 1,
        sd: [0, 0, 0xa],
    };
    const B: SNssai = SNssai {
        sst: 1,
        sd: SNssai::NO_SD,
    };

    fn policer(name: &str, slice: Option<SNssai>, dnn: Option<&str>) -> Policer {
        Policer {
            name: name.into(),
            scope: SessionScope {
                slice,
                dnn: dnn.map(Into::into),
            },
            rates: [Rate::from_kbit(1), Rate::UNLIMITED],
            shapes: false,
            weight: 1,
        }
    }

    fn with(policers: Vec<Policer>) -> Result<Network, NetworkError> {
        Network::default().with_policers(policers)
    }

    fn names(network: &Network, slice: Option<SNssai>, dnn: Option<&[u8]>) -> Vec<String> {
        let id = network.policers().of(slice, dnn);
        assert!(id.0 <= network.policers().count());
        let names: Vec<String> = network.policers().named(id).map(|one| one.name.clone()).collect();
        assert_eq!(network.policers().by_names(names.iter().map(String::as_str)), id);
        names
    }

    #[test]
    fn a_session_passes_what_is_for_its_slice_its_data_network_and_both() {
        let network = with(vec![
            policer("a", Some(A), None),
            policer("internet", None, Some("internet")),
            policer("a-internet", Some(A), Some("internet")),
            policer("b-ims", Some(B), Some("ims.example")),
        ])
        .expect("they differ");
        let of = |slice, dnn: &str| names(&network, slice, Some(dnn.as_bytes()));
        assert_eq!(of(Some(A), "Internet"), ["a-internet", "internet", "a"]);
        assert_eq!(of(Some(A), "ims.example"), ["a"]);
        assert_eq!(of(Some(B), "\u{8}internet"), ["internet"]);
        assert_eq!(of(Some(B), "\u{3}ims\u{7}example"), ["b-ims"]);
        assert_eq!(of(None, "internet"), ["internet"]);
        assert_eq!(names(&network, Some(A), None), ["a"]);
        assert_eq!(names(&network, None, None), [""; 0]);
        assert_eq!(network.policers().of(Some(B), None), SharedId::NONE);
        assert_eq!(
            network.policers().by_names(["gone", "a"].into_iter()),
            SharedId(1)
        );
        for (id, chain) in network.policers().chains() {
            assert!(id.0 > 4 && chain[1] != SharedId::NONE && chain[3] == SharedId::NONE);
        }
    }

    #[test]
    fn what_shapes_has_no_meter() {
        let shaping = |policer| Policer {
            shapes: true,
            ..policer
        };
        let policers = Policers::new(vec![
            shaping(policer("a", Some(A), None)),
            policer("internet", None, Some("internet")),
            shaping(policer("a-internet", Some(A), Some("internet"))),
            shaping(policer("b", Some(B), None)),
        ]);
        let policers = policers.expect("they differ");
        let chain = |ids: &[u16]| {
            let mut chain = Chain::default();
            chain
                .iter_mut()
                .zip(ids)
                .for_each(|(place, id)| *place = SharedId(*id));
            chain
        };
        let [a, internet, both] = [
            policers.of(Some(A), None),
            policers.of(None, Some(b"internet")),
            policers.of(Some(A), Some(b"internet")),
        ];
        assert_eq!((a, internet), (SharedId(1), SharedId(2)));
        assert_eq!(
            [a, internet, both].map(|id| policers.metered_of(id)),
            [SharedId::NONE, internet, both]
        );
        assert_eq!(policers.shaped_of(a), chain(&[1]));
        assert_eq!(policers.shaped_of(internet), chain(&[]));
        assert_eq!(policers.shaped_of(both), chain(&[3, 1]), "the narrowest first");
        assert_eq!(policers.shaped_of(SharedId::NONE), chain(&[]));
        let meters = policers.chains().find(|(id, _)| *id == both);
        assert_eq!(meters, Some((both, chain(&[2]))));
        assert_eq!(
            policers.named(both).count(),
            3,
            "they are the session's all the same"
        );
        // a-internet is below a, or alone: in a session that was brought from where there was no a.
        assert_eq!(policers.shaped_nodes(), 4);
    }

    #[test]
    fn policers_that_say_nothing_or_the_same_are_refused() {
        let refused = |policers: Vec<Policer>, name: &str| {
            assert_eq!(with(policers), Err(NetworkError::Policer(name.into())));
        };
        refused(vec![policer("", Some(A), None)], "");
        refused(vec![policer("x", None, None)], "x");
        refused(
            vec![policer("x", Some(A), None), policer("y", Some(A), None)],
            "y",
        );
        refused(
            vec![policer("x", Some(A), None), policer("x", Some(B), None)],
            "x",
        );
        let many = |count: u16| (0..count).map(|n| policer(&format!("{n}"), None, Some(&format!("dnn{n}"))));
        assert!(with(many(Policers::MAX as u16).collect()).is_ok());
        refused(many(Policers::MAX as u16 + 1).collect(), "128");
    }

    #[test]
    fn what_stays_keeps_its_number() {
        let first = vec![
            policer("a", Some(A), None),
            policer("internet", None, Some("internet")),
        ];
        let older = Policers::new(first.clone()).expect("they differ");
        let both = older.of(Some(A), Some(b"internet"));
        assert_eq!((older.count(), both), (3, SharedId(3)));
        let next = vec![policer("b", Some(B), None), first[1].clone(), first[0].clone()];
        let newer = Policers::new(next).expect("they differ").succeeding(&older);
        let newer = newer.expect("there is room");
        assert_eq!(newer.of(Some(A), None), SharedId(1));
        assert_eq!(newer.of(None, Some(b"internet")), SharedId(2));
        assert_eq!(newer.of(Some(A), Some(b"internet")), both);
        assert_eq!(
            newer.of(Some(B), None),
            SharedId(4),
            "no number of the older ones"
        );
        assert!(newer.of(Some(B), Some(b"internet")).0 > 4);
        assert_eq!(newer.room(), older.room());
        let gone = Policers::new(vec![first[0].clone()]).expect("one");
        let gone = gone.succeeding(&newer).expect("there is room");
        let again = Policers::new(vec![policer("c", Some(B), None)]).expect("one");
        let again = again.succeeding(&gone).expect("there is room");
        assert_eq!(again.of(Some(B), None), SharedId(2), "a number that was given up");
    }

    #[test]
    fn more_than_there_are_meters_for_is_refused() {
        let many = |count: u16| {
            let all = (0..count).map(|n| policer(&format!("{n}"), None, Some(&format!("dnn{n}"))));
            Policers::new(all.collect()).expect("they differ")
        };
        let older = many(0);
        assert!(many(SPARE_NUMBERS).succeeding(&older).is_ok());
        let room = SPARE_NUMBERS;
        assert_eq!(many(SPARE_NUMBERS + 1).succeeding(&older), Err(NoMeter { room }));
    }
}
