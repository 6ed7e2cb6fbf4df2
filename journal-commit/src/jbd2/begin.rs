//! Beginning a handle: joining the running transaction, or beginning one.

use std::sync::Arc;

use super::error::Error;
use super::format::Tid;
use super::handle::Handle;
use super::inner::Inner;
use super::raw::holders::Holder;
use super::raw::updates::Refused;
use super::transaction::Transaction;

impl Inner {
    /// Joins the running transaction, or begins a transaction if none is running.
    pub(crate) fn begin(&self, credits: u32) -> Result<Handle<'_>, Error> {
        self.check_credits(credits)?;
        let (transaction, me) = self.join(credits, None)?;
        Ok(Handle::new(self, transaction, me, credits))
    }

    pub(super) fn check_credits(&self, asked: u32) -> Result<(), Error> {
        let most = self.log.most_credits;
        if asked > most {
            return Err(Error::TooManyCredits { asked, most });
        }
        Ok(())
    }

    /// Reserves credits in the running transaction, or begins one. There must not be more than a
    /// transaction can have. Does not join `old`, whose commit was requested. Also returns a name
    /// for the handle.
    pub(super) fn join(
        &self,
        credits: u32,
        old: Option<Tid>,
    ) -> Result<(Arc<Transaction>, Holder), Error> {
        let most = self.log.most_credits;
        loop {
            self.medium.check()?;
            let running = self.state.lock().running.clone();
            let Some(running) = running else {
                self.begin_transaction()?;
                continue;
            };
            let joined = match old {
                Some(old) if old == running.tid => Err(Refused::Locked),
                _ => running.updates.join(credits, most),
            };
            match joined {
                Ok(()) => {
                    let mut state = self.state.lock();
                    state.stats.handles += 1;
                    return Ok((running, Holder(state.stats.handles)));
                }
                Err(Refused::Locked) => {}
                Err(Refused::Full) => self.want(running.tid),
            }
            self.joins.wait_until(|| {
                let state = self.state.lock();
                let same = state.running.as_ref().map(|it| it.tid) == Some(running.tid);
                drop(state);
                (!same || self.medium.check().is_err()).then_some(())
            });
        }
    }

    /// Begins a transaction if none is running and the log has room for it (J2).
    fn begin_transaction(&self) -> Result<(), Error> {
        self.make_room(self.log.most_blocks)?;
        let mut state = self.state.lock();
        if state.running.is_none() && state.free >= self.log.most_blocks {
            state.running = Some(Arc::new(Transaction::new(state.next)));
            state.next = state.next.next();
        }
        Ok(())
    }
}
