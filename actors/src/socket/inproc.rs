//! `inproc://`: endpoints of one context (4.4). Frames travel through a pipe in memory, so that an
//! inproc peer sees what one on any other transport does.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{DuplexStream, duplex};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// What a pipe takes in each direction before its writer waits, in bytes; it takes memory only for
/// what is in it.
const PIPE: usize = 64 << 10;

/// The inproc endpoints of one context; a clone is the same context. Binding and connecting may come
/// in either order.
#[derive(Clone, Debug, Default)]
pub struct Inproc {
    names: Arc<Mutex<HashMap<Arc<str>, Name>>>,
}

/// What is known of a name.
#[derive(Debug)]
enum Name {
    /// Somebody is bound to it.
    Bound(UnboundedSender<DuplexStream>),
    /// Nobody is; these wait.
    Awaited(Vec<Waiting>),
}

/// A connect that waits for its bind: the other end of its pipe.
#[derive(Debug)]
struct Waiting {
    taken: oneshot::Sender<()>,
    far: DuplexStream,
}

impl Inproc {
    /// Binds a name; those that wait for it are connected.
    ///
    /// # Errors
    /// [`AddrInUse`](io::ErrorKind::AddrInUse).
    pub fn bind(&self, name: &Arc<str>) -> io::Result<InprocListener> {
        let mut names = self.lock();
        if matches!(names.get(name), Some(Name::Bound(_))) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let (sender, arrivals) = unbounded_channel();
        if let Some(Name::Awaited(waiting)) =
            names.insert(Arc::clone(name), Name::Bound(sender.clone()))
        {
            for Waiting { taken, far } in waiting {
                // Whoever does not wait any more is told nothing.
                if taken.send(()).is_ok() {
                    let _ = sender.send(far);
                }
            }
        }
        Ok(InprocListener { name: Arc::clone(name), context: self.clone(), arrivals })
    }

    /// Connects to a name, as soon as somebody is bound to it.
    pub fn connect(&self, name: &Arc<str>) -> InprocConnecting {
        let (near, far) = duplex(PIPE);
        let mut names = self.lock();
        let far = match names.get(name) {
            Some(Name::Bound(sender)) => match sender.send(far) {
                Ok(()) => return InprocConnecting { near: Some(near), taken: None },
                // Its listener is about to take the name back.
                Err(refused) => refused.0,
            },
            _ => far,
        };
        let (taken, wait) = oneshot::channel();
        let waiting = Waiting { taken, far };
        match names.get_mut(name) {
            Some(Name::Awaited(all)) => {
                all.retain(|other| !other.taken.is_closed());
                all.push(waiting);
            }
            _ => {
                names.insert(Arc::clone(name), Name::Awaited(vec![waiting]));
            }
        }
        drop(names);
        InprocConnecting {
            near: Some(near),
            taken: Some(Wait { told: wait, name: Arc::clone(name), context: self.clone() }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Name>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A bound name; free again when this is dropped.
#[derive(Debug)]
pub struct InprocListener {
    name: Arc<str>,
    context: Inproc,
    arrivals: UnboundedReceiver<DuplexStream>,
}

impl InprocListener {
    /// The next connection.
    ///
    /// # Errors
    /// None: it is as other listeners.
    pub fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<DuplexStream>> {
        self.arrivals.poll_recv(cx).map(|far| far.ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}

impl Drop for InprocListener {
    fn drop(&mut self) {
        self.arrivals.close();
        let mut names = self.context.lock();
        // A connect that found it closed may wait under the name already.
        if matches!(names.get(&self.name), Some(Name::Bound(sender)) if sender.is_closed()) {
            names.remove(&self.name);
        }
    }
}

/// A connect that waits for its name to be bound. Dropped, it waits no more.
#[derive(Debug)]
pub struct InprocConnecting {
    near: Option<DuplexStream>,
    taken: Option<Wait>,
}

#[derive(Debug)]
struct Wait {
    told: oneshot::Receiver<()>,
    name: Arc<str>,
    context: Inproc,
}

impl Future for InprocConnecting {
    type Output = io::Result<DuplexStream>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(taken) = &mut self.taken {
            let told = std::task::ready!(Pin::new(&mut taken.told).poll(cx));
            self.taken = None;
            if told.is_err() {
                self.near = None;
            }
        }
        Poll::Ready(self.near.take().ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.told.close();
        let mut names = self.context.lock();
        if let Some(Name::Awaited(waiting)) = names.get_mut(&self.name) {
            waiting.retain(|other| !other.taken.is_closed());
            if waiting.is_empty() {
                names.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::{Inproc, InprocListener};

    fn name(name: &str) -> Arc<str> {
        Arc::from(name)
    }

    fn accepted(listener: &mut InprocListener) -> Option<DuplexStream> {
        match listener.poll_accept(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(stream) => Some(stream.unwrap()),
            Poll::Pending => None,
        }
    }

    async fn talk(near: &mut DuplexStream, far: &mut DuplexStream) {
        near.write_all(b"there").await.unwrap();
        let mut got = [0; 5];
        far.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"there");
    }

    #[tokio::test]
    async fn endpoint_inproc_is_bound_and_connected_in_either_order() {
        let context = Inproc::default();
        let early = context.connect(&name("a"));
        let given_up = context.connect(&name("a"));
        drop(given_up);
        let mut listener = context.bind(&name("a")).unwrap();
        let late = context.connect(&name("a"));
        for connecting in [early, late] {
            let mut near = connecting.now_or_never().expect("its name is bound").unwrap();
            let mut far = accepted(&mut listener).expect("it was connected");
            talk(&mut near, &mut far).await;
        }
        assert!(accepted(&mut listener).is_none(), "the one that gave up is not there");
    }

    #[test]
    fn endpoint_inproc_a_name_is_bound_once_and_free_after_its_unbind() {
        let context = Inproc::default();
        let listener = context.bind(&name("a")).unwrap();
        assert_eq!(context.bind(&name("a")).unwrap_err().kind(), ErrorKind::AddrInUse);
        context.bind(&name("b")).unwrap();
        assert!(Inproc::default().bind(&name("a")).is_ok(), "another context has names of its own");
        drop(listener);
        context.bind(&name("a")).unwrap();
    }

    #[test]
    fn endpoint_inproc_a_connect_to_a_name_that_was_unbound_waits_for_the_next_bind() {
        let context = Inproc::default();
        drop(context.bind(&name("a")).unwrap());
        let mut connecting = context.connect(&name("a"));
        assert!((&mut connecting).now_or_never().is_none());
        let mut listener = context.bind(&name("a")).unwrap();
        assert!(connecting.now_or_never().expect("bound").is_ok());
        assert!(accepted(&mut listener).is_some());
    }

    #[test]
    fn endpoint_inproc_names_that_nobody_waits_for_are_forgotten() {
        let context = Inproc::default();
        let connects = [context.connect(&name("a")), context.connect(&name("a"))];
        assert_eq!(context.lock().len(), 1);
        drop(connects);
        assert!(context.lock().is_empty());
    }
}
