//! Answers without end, a bounded number at a time, of which each caller may have a part.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::http::StatusCode;
use hyper::body::{Body, Frame, SizeHint};

use super::Caller;
use crate::values::Problem;

/// The places of one kind of stream.
#[derive(Clone)]
pub(super) struct StreamPlaces {
    most: usize,
    of_one: usize,
    held: Arc<Mutex<Held>>,
}

/// By caller, how many.
type Held = BTreeMap<Arc<str>, usize>;

fn lock(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    // It is whole between any two statements.
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place, until it is dropped.
pub(super) struct StreamPlace {
    places: StreamPlaces,
    caller: Arc<str>,
}

impl StreamPlaces {
    /// `most` places, of which a caller may have `of_one`.
    pub(super) fn new(most: usize, of_one: usize) -> Self {
        Self {
            most,
            of_one,
            held: Arc::default(),
        }
    }

    /// A place for a caller.
    ///
    /// # Errors
    /// There is none left, or this caller has as many as it may.
    pub(super) fn take(&self, caller: &Caller) -> Result<StreamPlace, Problem> {
        let full = |words: String| Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, words));
        let mut held = lock(&self.held);
        let own = held.get(&caller.name).copied().unwrap_or_default();
        if own >= self.of_one {
            return full(format!("this caller has {own} such streams, as many as it may"));
        }
        if held.values().sum::<usize>() >= self.most {
            return full(format!(
                "{} such streams are open, as many as there may be",
                self.most
            ));
        }
        held.insert(Arc::clone(&caller.name), own + 1);
        Ok(StreamPlace {
            places: self.clone(),
            caller: Arc::clone(&caller.name),
        })
    }
}

impl StreamPlace {
    /// A body that has this place as long as it is there.
    pub(super) fn with<B>(self, body: B) -> Placed<B> {
        Placed { body, _place: self }
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut held = lock(&self.places.held);
        match held.get(&self.caller).copied().unwrap_or_default() {
            0 | 1 => held.remove(&self.caller),
            own => held.insert(Arc::clone(&self.caller), own - 1),
        };
    }
}

/// A body with its place.
pub(super) struct Placed<B> {
    body: B,
    _place: StreamPlace,
}

impl<B: Body + Unpin> Body for Placed<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::{PeerAddress, Role};

    fn caller(name: &str) -> Caller {
        Caller {
            name: name.into(),
            role: Role::Viewer,
            address: PeerAddress::Unix,
        }
    }

    #[test]
    fn a_caller_leaves_places_to_others_and_gives_its_own_back() {
        let places = StreamPlaces::new(5, 3);
        let mut of_one: Vec<_> = (0..3)
            .map(|_| places.take(&caller("one")).ok().unwrap())
            .collect();
        let refused = places.take(&caller("one")).err().unwrap();
        assert!(refused.detail.contains("this caller has 3"), "{}", refused.detail);
        let of_other: Vec<_> = (0..2)
            .map(|_| places.take(&caller("other")).ok().unwrap())
            .collect();
        assert!(places.take(&caller("third")).is_err());
        drop(of_other);
        assert!(places.take(&caller("third")).is_ok());
        of_one.pop();
        assert!(places.take(&caller("one")).is_ok());
        drop(of_one);
        assert!(lock(&places.held).is_empty());
    }
}
