//! A model that a server runs: it answers there ([`flow_serve::Remote`]), and this process has nothing of it.

use super::{Model, Opening};
use flow_model::{ModelFault, ModelSettings, PolicyError, Result};

struct RemoteModel(String);

pub fn open(name: &str, settings: &ModelSettings, _: &Opening) -> Result<Option<Box<dyn Model>>> {
    Ok(matches!(settings, ModelSettings::Remote(_)).then(|| Box::new(RemoteModel(name.into())) as Box<dyn Model>))
}

impl Model for RemoteModel {
    fn refusal(&self) -> PolicyError {
        PolicyError::model(&self.0, ModelFault::OnlyAnswers)
    }
}
