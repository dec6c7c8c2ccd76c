//! Descriptors kept for the moment when the process has none left (case M-11).

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::io::{DupFlags, dup3};
use tokio::net::TcpStream;

/// A few descriptors of `/dev/null` that can be given up for something more useful.
#[derive(Clone)]
pub(super) struct Reserve {
    inner: Rc<Inner>,
}

struct Inner {
    /// What the reserve is copied from: opening a file may fail, copying over it does not.
    null: OwnedFd,
    kept: RefCell<Vec<OwnedFd>>,
    lent: Cell<usize>,
    size: usize,
}

impl Reserve {
    /// Sets so many descriptors aside.
    pub(super) fn new(size: usize) -> io::Result<Self> {
        let null = OwnedFd::from(File::open("/dev/null")?);
        let kept = (0..size).map(|_| null.try_clone()).collect::<io::Result<_>>()?;
        let inner = Inner { null, kept: RefCell::new(kept), lent: Cell::new(0), size };
        Ok(Self { inner: Rc::new(inner) })
    }

    /// Closes one descriptor, so that the next call that needs one can have it.
    pub(super) fn lend(&self) -> Option<Lent> {
        drop(self.inner.kept.borrow_mut().pop()?);
        self.inner.lent.set(self.inner.lent.get() + 1);
        Some(Lent { inner: Rc::clone(&self.inner) })
    }

    /// Closes the whole reserve while `work` runs, which needs descriptors for a moment.
    pub(super) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.inner.kept.borrow_mut().clear();
        let result = work();
        self.refill();
        result
    }

    /// True while another thread has what was given up and not brought back.
    pub(super) fn is_short(&self) -> bool {
        self.inner.kept.borrow().len() + self.inner.lent.get() < self.inner.size
    }

    /// Sets aside what is missing, as far as there are descriptors.
    pub(super) fn refill(&self) {
        while self.is_short() {
            match self.inner.null.try_clone() {
                Ok(fd) => self.inner.kept.borrow_mut().push(fd),
                Err(_) => return,
            }
        }
    }
}

/// A descriptor of the reserve is in use elsewhere.
pub(super) struct Lent {
    inner: Rc<Inner>,
}

impl Lent {
    /// Closes the connection and keeps its descriptor, in one step: between closing it and opening
    /// another, a listener that waits for descriptors would take it.
    pub(super) fn bring_back(self, stream: TcpStream) {
        let Ok(stream) = stream.into_std() else {
            return;
        };
        let mut fd = OwnedFd::from(stream);
        if dup3(&self.inner.null, &mut fd, DupFlags::CLOEXEC).is_ok() {
            self.inner.kept.borrow_mut().push(fd);
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.inner.lent.set(self.inner.lent.get() - 1);
        Reserve { inner: Rc::clone(&self.inner) }.refill();
    }
}

#[cfg(test)]
mod tests {
    use super::Reserve;

    #[test]
    fn case_m11_the_reserve_is_whole_again_after_each_use() {
        let reserve = Reserve::new(2).unwrap();
        let first = reserve.lend().unwrap();
        let second = reserve.lend().unwrap();
        assert!(reserve.lend().is_none());
        assert!(!reserve.is_short());
        drop(first);
        drop(second);
        assert_eq!(reserve.inner.kept.borrow().len(), 2);
        assert_eq!(reserve.during(|| reserve.inner.kept.borrow().len()), 0);
        assert_eq!(reserve.inner.kept.borrow().len(), 2);
    }

    #[tokio::test]
    async fn case_m11_a_connection_comes_back_as_reserve_and_is_closed() {
        use tokio::io::AsyncReadExt;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client =
            tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let reserve = Reserve::new(1).unwrap();
        reserve.lend().unwrap().bring_back(stream);
        assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
        assert_eq!(reserve.inner.kept.borrow().len(), 1);
        assert!(reserve.lend().is_some());
    }
}
