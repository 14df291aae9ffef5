//! Any bytes as the models of drives that are kept: an error, or models that drives can have, which can be
//! written and read again.
use paralfetch::drive::KeptModels;

pub fn check(bytes: &[u8]) {
    if let Ok(models) = KeptModels::parse(bytes) {
        for kept in models.drives() {
            assert!(kept.model.is_sound() && !kept.identities.is_empty());
            assert!(!kept.model.describe().is_empty());
        }
        let text = models.to_json().expect("sound numbers are JSON");
        let again = KeptModels::parse(text.as_bytes()).expect("what was written can be read");
        assert_eq!(again.drives().len(), models.drives().len());
    }
}
