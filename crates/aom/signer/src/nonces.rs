//! Nonces that are made in advance, since most of a signature's work does not depend on the signed data.
//!
//! Each nonce comes from the system's random numbers, is used once, and is then overwritten. No nonce is ever written
//! to a file, so a restarted process has other nonces. The nonces are in memory that is wiped in a child process and is
//! not part of a core dump. But a copy of the whole machine has copies of the nonces, and two copies that sign
//! different states with the same nonce reveal the key. A pool made by [`Pool::without`] avoids this: it stores no
//! nonces.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use aom::chain::Hash;
use k256::ecdsa::signature::hazmat::RandomizedPrehashSigner;
use k256::ecdsa::{Signature, SigningKey};
use k256::elliptic_curve::PrimeField;
use k256::elliptic_curve::ops::{Invert, Reduce};
use k256::elliptic_curve::point::AffineCoordinates;
use k256::elliptic_curve::rand_core::{CryptoRngCore, OsRng};
use k256::elliptic_curve::zeroize::{Zeroize, Zeroizing};
use k256::{FieldBytes, NonZeroScalar, ProjectivePoint, Scalar, U256};
use secret_memory::Wiped;

/// The part of a signature that depends on its nonce k only: 1/k, and the x-coordinate of k times the curve's
/// generator.
pub struct Nonce {
    inverse: Scalar,
    r: Scalar,
}

impl Drop for Nonce {
    fn drop(&mut self) {
        // Whoever knows the nonce of a signature can compute the key.
        self.inverse.zeroize();
    }
}

impl Nonce {
    pub fn random(rng: &mut impl CryptoRngCore) -> Nonce {
        loop {
            let k = NonZeroScalar::random(rng);
            if let Some(nonce) = Nonce::of(&k) {
                return nonce;
            }
        }
    }

    /// Computes the nonce for k; `None` if r is 0, which a signature must not have.
    #[must_use]
    pub fn of(k: &NonZeroScalar) -> Option<Nonce> {
        let point = (ProjectivePoint::GENERATOR * **k).to_affine();
        let r = <Scalar as Reduce<U256>>::reduce_bytes(&point.x());
        let inverse = Invert::invert(&**k);
        let inverse: Option<Scalar> = inverse.into();
        let is_usable = r.to_repr() != FieldBytes::default();
        inverse
            .filter(|_| is_usable)
            .map(|inverse| Nonce { inverse, r })
    }

    /// Reads the two numbers of a stored nonce, 1/k and r. Returns `None` if one of them is 0, as in wiped memory.
    fn read(bytes: &[u8]) -> Option<Nonce> {
        let scalar = |bytes: &[u8]| {
            let bytes = <[u8; SCALAR_BYTES]>::try_from(bytes).ok()?;
            let bytes = Zeroizing::new(FieldBytes::from(bytes));
            let scalar: Option<Scalar> = Scalar::from_repr(*bytes).into();
            scalar.filter(|scalar| *scalar != Scalar::ZERO)
        };
        let (inverse, r) = bytes.split_at(SCALAR_BYTES);
        Some(Nonce {
            inverse: scalar(inverse)?,
            r: scalar(r)?,
        })
    }

    /// Signs a state, and uses up the nonce. Returns `None` if the signature's number s is 0, which does not happen in
    /// practice.
    #[must_use]
    pub fn sign(self, key: &SigningKey, state: &Hash) -> Option<Signature> {
        let z = <Scalar as Reduce<U256>>::reduce_bytes(&FieldBytes::from(*state));
        let s = self.inverse * (z + self.r * **key.as_nonzero_scalar());
        let signature = Signature::from_scalars(self.r.to_repr(), s.to_repr()).ok()?;
        // Of the two valid signatures, (r, s) and (r, -s), strict verifiers accept only the one with the low s.
        Some(signature.normalize_s().unwrap_or(signature))
    }
}

/// Nonces for signatures, and the threads that make them.
pub struct Pool {
    shared: Arc<Shared>,
    makers: Vec<JoinHandle<()>>,
}

struct Shared {
    capacity: usize,
    /// Whether the pool stores no nonces, because [`Pool::without`] made it.
    is_without: bool,
    inside: Mutex<Inside>,
    wanted: Condvar,
}

struct Inside {
    /// A ring buffer of nonces.
    places: Wiped,
    /// The index of the next nonce.
    first: usize,
    n_ready: usize,
    is_closed: bool,
}

/// The length of a stored nonce: the numbers 1/k and r.
const NONCE_BYTES: usize = 2 * SCALAR_BYTES;
const SCALAR_BYTES: usize = 32;

impl Pool {
    /// Creates a pool of at most `capacity` nonces that `n_threads` threads fill. With 0 threads only [`Pool::fill`]
    /// fills it.
    ///
    /// # Errors
    /// If a thread cannot be started, or memory cannot be allocated.
    pub fn new(capacity: usize, n_threads: usize) -> io::Result<Pool> {
        let shared = Arc::new(Shared {
            capacity,
            is_without: false,
            inside: Mutex::new(Inside {
                places: Wiped::new(capacity * NONCE_BYTES)?,
                first: 0,
                n_ready: 0,
                is_closed: false,
            }),
            wanted: Condvar::new(),
        });
        let maker = |_| {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name("nonces".to_owned());
            thread.spawn(move || shared.make())
        };
        let makers: io::Result<Vec<_>> = (0..n_threads).map(maker).collect();
        Ok(Pool {
            makers: makers?,
            shared,
        })
    }

    /// Creates a pool that stores no nonces. Instead a nonce is computed for each signature, which takes many times as
    /// long. The nonce is derived from key, state (RFC 6979) and fresh random numbers. So copies of this machine that
    /// sign different states use different nonces, even if their random numbers are the same.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn without() -> io::Result<Pool> {
        let mut pool = Pool::new(1, 0)?;
        if let Some(shared) = Arc::get_mut(&mut pool.shared) {
            shared.is_without = true;
        }
        Ok(pool)
    }

    /// Signs a state. Returns `None` if there is no nonce, or if the signature's number s is 0; the nonce is then used
    /// up too.
    #[must_use]
    pub fn sign(&self, key: &SigningKey, state: &Hash) -> Option<Signature> {
        if !self.shared.is_without {
            return self.take()?.sign(key, state);
        }
        let signature: Signature = key.sign_prehash_with_rng(&mut OsRng, state).ok()?;
        Some(signature.normalize_s().unwrap_or(signature))
    }

    /// Takes the next nonce out of the pool, if there is one.
    pub fn take(&self) -> Option<Nonce> {
        let mut inside = self.shared.lock();
        let nonce = inside.take(self.shared.capacity);
        self.shared.wanted.notify_one();
        nonce
    }

    /// Returns the number of nonces in the pool, or the capacity if the pool stores no nonces.
    #[must_use]
    pub fn level(&self) -> usize {
        if self.shared.is_without {
            self.shared.capacity
        } else {
            self.shared.lock().n_ready
        }
    }

    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shared.capacity
    }

    /// Adds up to `n` nonces while there is room. It is used in tests, and before the first packet.
    pub fn fill(&self, n: usize) {
        for _ in 0..n.min(self.shared.capacity) {
            self.shared.put(Nonce::random(&mut OsRng));
        }
    }

    #[cfg(test)]
    pub(crate) fn put_known(&self, k: &NonZeroScalar) {
        if let Some(nonce) = Nonce::of(k) {
            self.shared.put(nonce);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.wanted.notify_all();
        for maker in self.makers.drain(..) {
            // The panic hook has already printed a panic of the thread.
            let _ = maker.join();
        }
    }
}

impl Shared {
    /// Locks the pool's content, and ignores poisoning: the content is consistent whenever the lock is released.
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of a thread that makes nonces. It makes each nonce without holding the lock.
    fn make(&self) {
        while self.wait_for_room() {
            self.put(Nonce::random(&mut OsRng));
        }
    }

    /// Waits for room in the pool. Returns false when the pool is closed.
    fn wait_for_room(&self) -> bool {
        let mut inside = self.lock();
        while inside.n_ready >= self.capacity && !inside.is_closed {
            inside = self
                .wanted
                .wait(inside)
                .unwrap_or_else(PoisonError::into_inner);
        }
        !inside.is_closed
    }

    fn put(&self, nonce: Nonce) {
        self.lock().put(&nonce, self.capacity);
    }
}

impl Inside {
    fn place(&mut self, at: usize, capacity: usize) -> &mut [u8] {
        let begin = at % capacity * NONCE_BYTES;
        &mut self.places[begin..begin + NONCE_BYTES]
    }

    fn put(&mut self, nonce: &Nonce, capacity: usize) {
        if self.n_ready < capacity {
            let place = self.place(self.first + self.n_ready, capacity);
            let (inverse, r) = place.split_at_mut(SCALAR_BYTES);
            inverse.copy_from_slice(&Zeroizing::new(nonce.inverse.to_repr()));
            r.copy_from_slice(&nonce.r.to_repr());
            self.n_ready += 1;
        }
    }

    fn take(&mut self, capacity: usize) -> Option<Nonce> {
        self.n_ready = self.n_ready.checked_sub(1)?;
        let place = self.place(self.first, capacity);
        let nonce = Nonce::read(place);
        place.zeroize();
        self.first = (self.first + 1) % capacity;
        if nonce.is_none() {
            // The memory was wiped, so this is a child process and all other nonces are lost too.
            self.n_ready = 0;
        }
        nonce
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashSet, VecDeque};

    use aom::chain::{self, FIRST_LINK, to_wire};
    use aom::wire::SIGNATURE_BYTES;
    use k256::ecdsa::VerifyingKey;
    use k256::elliptic_curve::rand_core::{self, CryptoRng, RngCore};

    use super::*;

    const SIGNATURES: usize = 100_000;

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex"))
    }

    #[test]
    fn nonces_come_out_as_they_went_in_however_often_the_ring_wraps() {
        let pool = Pool::new(3, 0).expect("memory");
        let mut expected = VecDeque::new();
        for n in 1u64..100 {
            let k = NonZeroScalar::new(Scalar::from(n)).expect("it is not 0");
            pool.put_known(&k);
            if expected.len() < 3 {
                expected.push_back(Nonce::of(&k).expect("r is not 0"));
            }
            assert_eq!(pool.level(), expected.len());
            for _ in 0..n % 3 {
                let (found, expected) = (pool.take(), expected.pop_front());
                assert_eq!(
                    found.map(|it| (it.inverse, it.r)),
                    expected.map(|it| (it.inverse, it.r))
                );
            }
        }
        let inside = pool.shared.lock();
        let n_left = inside.places.iter().filter(|byte| **byte != 0).count();
        assert!(n_left <= inside.n_ready * NONCE_BYTES, "used ones are gone");
    }

    /// The test wipes the memory itself, as the kernel does in a child process (which a test of crate `secret_memory`
    /// shows).
    #[test]
    fn a_pool_whose_memory_is_wiped_signs_nothing() {
        let pool = Pool::new(10, 0).expect("memory");
        pool.fill(10);
        let key = SigningKey::random(&mut OsRng);
        assert!(pool.sign(&key, &[1; 32]).is_some());
        pool.shared.lock().places.fill(0);
        assert!(pool.sign(&key, &[1; 32]).is_none());
        assert_eq!(pool.level(), 0);
        pool.fill(1);
        assert!(pool.sign(&key, &[1; 32]).is_some());
    }

    #[test]
    fn without_a_pool_copies_of_a_machine_with_the_same_random_numbers_have_other_nonces() {
        let key = SigningKey::random(&mut OsRng);
        let pool = Pool::without().expect("memory");
        let mut seen = HashSet::new();
        for byte in 0..20 {
            let state = [byte; 32];
            let signature = pool.sign(&key, &state).expect("a signature");
            assert!(chain::verify(
                key.verifying_key(),
                &state,
                &to_wire(&signature)
            ));
            assert!(seen.insert(signature.split_bytes().0));
            // This is the case in which the kernel gives all copies of a machine the same random numbers.
            let mut same = Same(7);
            let signature: Signature = key
                .sign_prehash_with_rng(&mut same, &state)
                .expect("a signature");
            assert!(seen.insert(signature.split_bytes().0));
        }
        assert_eq!((pool.level(), pool.capacity()), (1, 1));
    }

    /// A random number generator that returns the same numbers again and again.
    struct Same(u8);

    impl RngCore for Same {
        fn next_u32(&mut self) -> u32 {
            u32::from(self.0)
        }

        fn next_u64(&mut self) -> u64 {
            u64::from(self.0)
        }

        fn fill_bytes(&mut self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand_core::Error> {
            bytes.fill(self.0);
            Ok(())
        }
    }

    impl CryptoRng for Same {}

    #[test]
    fn a_hundred_thousand_signatures_have_as_many_different_r() {
        let pool = Pool::new(1024, 2).expect("threads");
        let key = SigningKey::random(&mut OsRng);
        let mut seen = HashSet::with_capacity(SIGNATURES);
        while seen.len() < SIGNATURES {
            let Some(nonce) = pool.take() else {
                std::thread::yield_now();
                continue;
            };
            let signature = nonce.sign(&key, &FIRST_LINK).expect("s is not 0");
            let (r, s) = signature.split_bytes();
            assert!(seen.insert(r), "after {} signatures", seen.len());
            assert_eq!(signature.normalize_s(), None, "s is low: {s:02x?}");
        }
    }

    #[test]
    fn nonces_that_are_ready_sign_as_the_library_verifies() {
        let key = SigningKey::random(&mut OsRng);
        for byte in 0..50 {
            let state = [byte; 32];
            let signature = Nonce::random(&mut OsRng)
                .sign(&key, &state)
                .expect("s is not 0");
            assert!(chain::verify(
                key.verifying_key(),
                &state,
                &to_wire(&signature)
            ));
            assert!(!chain::verify(
                key.verifying_key(),
                &[byte + 1; 32],
                &to_wire(&signature)
            ));
        }
    }

    /// The coprocessor that NeoBFT's authors published used nonce 3 twice, which reveals its key: s1 - s2 is (z1 - z2)
    /// / 3. With that key and nonce this signer makes the published signatures, except that this signer uses the low s.
    #[test]
    fn the_published_nonce_gives_the_key_away_and_with_it_the_signatures() {
        let states: [Hash; 2] = [
            bytes("501a1ceb657cbdcabeaa794978d13e755d49db359c42260bae8313dd813d0b92"),
            bytes("06733e733c430607085480f8ae2544b6f9358bd8140d0cb134065a7907c1b0f7"),
        ];
        let signatures: [[u8; SIGNATURE_BYTES]; 2] = [
            bytes(concat!(
                "bbe5f34cda2edf549b9ff97287573451cad50229b8c9ac2eaaf77a08c9ce7cb8",
                "f936e0bc13f10186b0996f8345c831b529529df8854f344910c35892018a30f9"
            )),
            bytes(concat!(
                "327275240ef10a2c7dece79abde782da8a82c93a9d21909c13651250f6d9ef9f",
                "f936e0bc13f10186b0996f8345c831b529529df8854f344910c35892018a30f9"
            )),
        ];
        let three = NonZeroScalar::new(Scalar::from(3u64)).expect("3 is not 0");
        let mut first = signatures[0];
        first.reverse();
        let published = Signature::from_slice(&first).expect("a signature");
        let z = <Scalar as Reduce<U256>>::reduce_bytes(&FieldBytes::from(states[0]));
        let (r, s) = published.split_scalars();
        let secret = (*s * *three - z) * Invert::invert(&*r).expect("r is not 0");
        let secret = NonZeroScalar::new(secret).expect("it is not 0");
        let key = SigningKey::from(secret);
        let x: [u8; 32] = bytes("9aa20c8c9979c2794014d04f4b01dcd9777d0bf79da53b02dda9598949d24fc7");
        let public: VerifyingKey = *key.verifying_key();
        assert_eq!(
            public.to_encoded_point(false).x().map(|it| it[..] == x),
            Some(true)
        );
        let pool = Pool::new(4, 0).expect("no threads");
        for (state, published) in states.iter().zip(&signatures) {
            pool.put_known(&three);
            let ours = pool
                .take()
                .expect("a nonce")
                .sign(&key, state)
                .expect("s is not 0");
            let mut published = *published;
            published.reverse();
            let published = Signature::from_slice(&published).expect("a signature");
            let low = published.normalize_s().unwrap_or(published);
            assert_eq!(ours, low);
        }
    }
}
