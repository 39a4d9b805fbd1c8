//! Names of applications.

use std::sync::Arc;

use rules::model::*;

/// Takes the names of applications out of rules: records have none.
pub fn forget(rules: &mut SessionRules) {
    let without = |application: &Application| Application {
        named: Arc::default(),
        ..application.clone()
    };
    for pdr in rules.pdrs().to_vec() {
        let Some(application) = &pdr.pdi.optional.application else {
            continue;
        };
        let pdi = PdiUpdate {
            application: Edit::Set(without(application)),
            ..PdiUpdate::default()
        };
        let update = PdrUpdate {
            pdi: Some(pdi),
            ..PdrUpdate::new(pdr.id)
        };
        rules.update_pdr(update).expect("it is there");
    }
    for urr in rules.urrs().to_vec() {
        let applications = &urr.terms().exempt_applications;
        if applications.is_empty() {
            continue;
        }
        let terms = UrrTermsUpdate {
            exempt_applications: Some(applications.iter().map(without).collect()),
            ..UrrTermsUpdate::default()
        };
        let update = UrrUpdate {
            terms: Some(Box::new(terms)),
            ..UrrUpdate::new(urr.id)
        };
        rules.update_urr(update).expect("it is there");
    }
}
