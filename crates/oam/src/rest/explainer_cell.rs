//! Who explains packets, while the configuration changes.

use std::sync::{Arc, PoisonError, RwLock};

use config::Config;
use rules::network::Network;

use ::trace::Explainer;

/// Who explains packets: by the configuration that is in effect.
#[derive(Clone)]
pub(super) struct ExplainerCell(Arc<RwLock<Arc<Explainer>>>);

impl ExplainerCell {
    pub(super) fn new(explainer: Explainer) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(explainer))))
    }

    /// As of now.
    pub(super) fn now(&self) -> Arc<Explainer> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Explains by another configuration from now on.
    pub(super) fn follow(&self, config: &Config, network: Arc<Network>) {
        let explainer = self.now().following(config, network);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(explainer);
    }
}
