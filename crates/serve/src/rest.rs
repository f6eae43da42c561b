//! Servers that give their GPU's memory to the trainer while it learns, by vLLM's sleep mode. Requests and proofs hold
//! them awake, an update has them asleep; requests wait meanwhile.

use super::replica::Replica;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Whether the servers of a model sleep.
#[derive(Default)]
pub struct Rest(RwLock<bool>);

/// Servers that are awake as long as this lives.
pub type Awake<'a> = RwLockReadGuard<'a, bool>;

/// Servers that are left alone as long as this lives. They sleep on until something is asked of them.
pub type Asleep<'a> = RwLockWriteGuard<'a, bool>;

impl Rest {
    /// Has servers sleep, once nothing is under way at them.
    pub fn sleep(&self, replicas: &[Replica]) -> Asleep<'_> {
        let mut asleep = self.0.write();
        replicas.iter().for_each(Replica::sleep);
        *asleep = true;
        asleep
    }

    /// Has servers awake. One that doesn't wake up is left out.
    pub fn awake(&self, replicas: &[Replica]) -> Awake<'_> {
        loop {
            let awake = self.0.read();
            if !*awake {
                return awake;
            }
            drop(awake);
            let mut asleep = self.0.write();
            if std::mem::take(&mut *asleep) {
                replicas.iter().for_each(|replica| replica.wake().unwrap_or_else(|why| replica.leave_out(why)));
            }
        }
    }
}
