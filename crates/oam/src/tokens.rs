//! Bearer tokens: by which name and role a caller over TLS is known.
//!
//! A token is 256 random bits. It is shown once, when it is made; what is stored is its SHA-256. A slow hash, as
//! passwords need, would add nothing: what makes passwords guessable is that people choose them from few, and of 2^256
//! equally likely tokens no share worth mentioning can be tried, however fast the hash is. Hashes are compared in
//! constant time, all of them, so that the time of an answer tells nothing about any.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use config::CallerRole;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::values::{NewToken, TokenList, TokenRow};

/// What a token begins with, so that it is recognised where it does not belong.
const HEAD: &str = "sluice_";
/// Random octets of a token.
const OCTETS: usize = 32;
/// Tokens that are stored at most.
const MOST: usize = 1_000;
/// Octets of the file, at most.
const LONGEST_FILE: u64 = 1 << 20;
/// Characters of a name, at most.
const LONGEST_NAME: usize = 64;
/// The longest time a token may be valid for.
pub const LONGEST_LIFE: Duration = Duration::from_secs(10 * 366 * 86_400);
/// How long a token that is valid no more is still listed.
const REMEMBERED: u64 = 30 * 86_400;
/// How often the times of last use are stored at most.
const USE_STORED_EVERY: u64 = 60;

/// The SHA-256 of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenHash([u8; 32]);

/// A valid token's name and role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The name.
    pub name: Arc<str>,
    /// What its holder may do.
    pub role: CallerRole,
    /// By which it is asked again whether it is still valid.
    pub hash: TokenHash,
}

/// Why a token is not made or revoked.
#[derive(Debug)]
pub enum TokenError {
    /// The name is none: what it must be.
    BadName,
    /// A valid token has the name.
    Taken,
    /// No token has the name.
    Unknown,
    /// It would be valid for too long, or not at all.
    BadLife,
    /// There are as many as there may be.
    TooMany,
    /// The system's.
    Io(io::Error),
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName => write!(
                f,
                "must be 1 to {LONGEST_NAME} letters, digits, `.`, `_`, `-` or `@`"
            ),
            Self::Taken => f.write_str("is the name of a valid token"),
            Self::Unknown => f.write_str("is the name of no token"),
            Self::BadLife => write!(f, "must be 1 s to {} days", LONGEST_LIFE.as_secs() / 86_400),
            Self::TooMany => write!(f, "there are {MOST} tokens, which is as many as there may be"),
            Self::Io(error) => write!(f, "the tokens cannot be stored: {error}"),
        }
    }
}

impl std::error::Error for TokenError {}

impl From<io::Error> for TokenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A token as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    name: String,
    role: String,
    /// Hexadecimal.
    sha256: String,
    /// Seconds since 1970, as are the others.
    created: u64,
    created_by: String,
    expires: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_used: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stock {
    version: u32,
    tokens: Vec<Stored>,
}

/// A token in memory: what is compared is not read anew each time.
#[derive(Clone)]
struct Token {
    hash: TokenHash,
    role: CallerRole,
    stored: Stored,
}

impl Token {
    fn of(stored: Stored) -> io::Result<Self> {
        let bad = |words: String| io::Error::new(io::ErrorKind::InvalidData, words);
        let role = CallerRole::from_str(&stored.role)
            .map_err(|error| bad(format!("role of `{}`: {error}", stored.name)))?;
        let hash = from_hex(&stored.sha256).map(TokenHash);
        let hash = hash.ok_or_else(|| bad(format!("sha256 of `{}`: must be 64 digits", stored.name)))?;
        Ok(Self { hash, role, stored })
    }

    const fn is_valid(&self, now: u64) -> bool {
        self.stored.revoked.is_none() && now < self.stored.expires
    }

    fn row(&self, now: u64) -> TokenRow {
        let state = match self.stored.revoked {
            Some(_) => "revoked",
            None if now >= self.stored.expires => "expired",
            None => "valid",
        };
        TokenRow {
            name: self.stored.name.to_string(),
            role: self.role.to_string(),
            state: state.to_owned(),
            created: date(self.stored.created),
            created_by: self.stored.created_by.clone(),
            expires: date(self.stored.expires),
            last_used: self.stored.last_used.map(date),
        }
    }
}

/// The tokens of a daemon, and the file that they are in: mode 0600, written whole and renamed.
pub struct TokenStore {
    path: PathBuf,
    tokens: Mutex<Tokens>,
    /// Held by who writes the file, ahead of the tokens: those who ask whose a token is do not wait for a disk.
    writing: Mutex<()>,
}

struct Tokens {
    all: Vec<Token>,
    /// When the times of last use were stored, if one has changed since.
    use_due: Option<u64>,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct TokenRequest {
    /// Its name.
    pub name: String,
    /// What its holder may do.
    pub role: CallerRole,
    /// How long it is valid.
    pub life: Duration,
}

impl TokenStore {
    /// The tokens in the file at `path`; none where there is no file.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::PermissionDenied`] when another user than this one and root has the file, or the
    /// group or others may read it; [`io::ErrorKind::InvalidData`] when it is not a file of tokens.
    pub fn open(path: &Path) -> io::Result<Self> {
        let all = match fs::symlink_metadata(path) {
            Ok(found) => {
                check_file(&found)?;
                let octets = config::bounded_file::read(path, LONGEST_FILE)?;
                let stock: Stock = serde_json::from_slice(&octets)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
                stock
                    .tokens
                    .into_iter()
                    .map(Token::of)
                    .collect::<io::Result<_>>()?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let tokens = Mutex::new(Tokens { all, use_due: None });
        Ok(Self {
            path: path.to_owned(),
            tokens,
            writing: Mutex::default(),
        })
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        // What is behind it is whole between any two statements.
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts these tokens, which are stored, in the place of those there are; tokens may have been used meanwhile.
    fn replace(&self, mut all: Vec<Token>) {
        let mut tokens = self.tokens();
        for token in &mut all {
            let known = tokens.all.iter().find(|known| known.hash == token.hash);
            token.stored.last_used = known.map_or(token.stored.last_used, |known| known.stored.last_used);
        }
        tokens.all = all;
    }

    /// Makes a token, which only this answer has.
    ///
    /// # Errors
    /// [`TokenError`]; there is no token then.
    pub fn create(&self, wanted: TokenRequest, by: &str, now: SystemTime) -> Result<NewToken, TokenError> {
        let TokenRequest { name, role, life } = wanted;
        let is_good = |octet: u8| octet.is_ascii_alphanumeric() || b"._-@".contains(&octet);
        if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_good) {
            return Err(TokenError::BadName);
        }
        if life < Duration::from_secs(1) || life > LONGEST_LIFE {
            return Err(TokenError::BadLife);
        }
        let now = seconds(now);
        let _writing = self.writing();
        let mut all = self.tokens().all.clone();
        if all
            .iter()
            .any(|token| token.stored.name == *name && token.is_valid(now))
        {
            return Err(TokenError::Taken);
        }
        // One that is valid no more gives way to that of its name.
        all.retain(|token| {
            let over = token.stored.revoked.unwrap_or(token.stored.expires);
            token.stored.name != *name && (token.is_valid(now) || now < over + REMEMBERED)
        });
        if all.len() >= MOST {
            return Err(TokenError::TooMany);
        }
        let mut octets = [0; OCTETS];
        getrandom::fill(&mut octets).map_err(|error| io::Error::other(error.to_string()))?;
        let secret = format!("{HEAD}{}", hex(&octets));
        let expires = now + life.as_secs();
        all.push(Token::of(Stored {
            name: name.clone(),
            role: role.to_string(),
            sha256: hex(&hash(&secret).0),
            created: now,
            created_by: by.to_owned(),
            expires,
            last_used: None,
            revoked: None,
        })?);
        self.write(&all)?;
        self.replace(all);
        Ok(NewToken {
            name,
            role: role.to_string(),
            expires: date(expires),
            token: secret,
        })
    }

    /// Ends a token's validity.
    ///
    /// # Errors
    /// [`TokenError`]; it is valid still.
    pub fn revoke(&self, name: &str, now: SystemTime) -> Result<(), TokenError> {
        let now = seconds(now);
        let _writing = self.writing();
        let mut all = self.tokens().all.clone();
        let token = all
            .iter_mut()
            .find(|token| token.stored.name == *name && token.is_valid(now));
        token.ok_or(TokenError::Unknown)?.stored.revoked = Some(now);
        self.write(&all)?;
        self.replace(all);
        Ok(())
    }

    /// All tokens, without what proves them.
    pub fn list(&self, now: SystemTime) -> TokenList {
        let now = seconds(now);
        let tokens = self.tokens();
        TokenList {
            tokens: tokens.all.iter().map(|token| token.row(now)).collect(),
        }
    }

    /// Whose token this is; none when it is not valid. It has been used then.
    pub fn holder(&self, secret: &str, now: SystemTime) -> Option<Holder> {
        let (presented, now) = (hash(secret), seconds(now));
        let mut tokens = self.tokens();
        let place = place(&tokens.all, &presented)?;
        let token = tokens.all.get_mut(place).filter(|token| token.is_valid(now))?;
        token.stored.last_used = Some(now);
        let holder = Holder {
            name: token.stored.name.as_str().into(),
            role: token.role,
            hash: token.hash,
        };
        tokens.use_due.get_or_insert(now + USE_STORED_EVERY);
        Some(holder)
    }

    /// Whether the token with this hash is valid still.
    pub fn is_valid(&self, hash: &TokenHash, now: SystemTime) -> bool {
        let tokens = self.tokens();
        let token = place(&tokens.all, hash).and_then(|place| tokens.all.get(place));
        token.is_some_and(|token| token.is_valid(seconds(now)))
    }

    /// Stores when tokens were last used, now and then. What is not stored is known until the daemon ends.
    ///
    /// # Errors
    /// The system's.
    pub fn store_uses(&self, now: SystemTime) -> io::Result<()> {
        let _writing = self.writing();
        let mut tokens = self.tokens();
        if tokens.use_due.take_if(|due| *due <= seconds(now)).is_none() {
            return Ok(());
        }
        let all = tokens.all.clone();
        drop(tokens);
        self.write(&all)
    }

    /// Writes all tokens to a file beside the one that there is, and gives it its name.
    fn write(&self, all: &[Token]) -> io::Result<()> {
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        let beside = self.path.with_extension(format!("new-{}", std::process::id()));
        let _ = fs::remove_file(&beside);
        let stock = Stock {
            version: 1,
            tokens: all.iter().map(|token| token.stored.clone()).collect(),
        };
        let written = write_new(&beside, &stock).and_then(|()| fs::rename(&beside, &self.path));
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written?;
        File::open(parent)?.sync_all()
    }
}

fn write_new(path: &Path, stock: &Stock) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(&serde_json::to_vec_pretty(stock)?)?;
    file.write_all(b"\n")?;
    file.sync_all()
}

fn check_file(found: &fs::Metadata) -> io::Result<()> {
    let (user, mode) = (nix::unistd::geteuid().as_raw(), found.mode() & 0o7777);
    if found.is_file() && (found.uid() == user || found.uid() == 0) && mode & 0o077 == 0 {
        return Ok(());
    }
    let words = format!(
        "user {}, mode {mode:04o}; expected: a regular file of user {user} or 0, which neither group nor others may read",
        found.uid()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, words))
}

/// Where the token with this hash is. All are compared, each to its end.
fn place(all: &[Token], hash: &TokenHash) -> Option<usize> {
    let mut found = None;
    for (place, token) in all.iter().enumerate() {
        let is_same: Choice = token.hash.0.ct_eq(&hash.0);
        if bool::from(is_same) {
            found = Some(place);
        }
    }
    found
}

fn hash(secret: &str) -> TokenHash {
    TokenHash(Sha256::digest(secret).into())
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut octets = [0; 32];
    if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (place, octet) in octets.iter_mut().enumerate() {
        *octet = u8::from_str_radix(text.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(octets)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn date(seconds: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

/// Where tokens are unless the configuration says otherwise. `None` for a user without a home.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    if nix::unistd::geteuid().is_root() {
        return Some(PathBuf::from("/var/lib/sluice/tokens"));
    }
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(home);
    state.map(|state| state.join("sluice/tokens"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOW: SystemTime = UNIX_EPOCH;
    const DAY: Duration = Duration::from_secs(86_400);

    /// A directory of this test alone, taken away in the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tokens-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }

        fn file(&self) -> PathBuf {
            self.0.join("sub/tokens")
        }

        fn store(&self) -> TokenStore {
            TokenStore::open(&self.file()).unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn wanted(name: &str, role: CallerRole, life: Duration) -> TokenRequest {
        TokenRequest {
            name: name.into(),
            role,
            life,
        }
    }

    #[test]
    fn a_token_is_known_until_it_expires_or_is_revoked() {
        let scratch = Scratch::new("life");
        let store = scratch.store();
        let make = |name, role| store.create(wanted(name, role, DAY), "uid:0", NOW).unwrap();
        let (one, two) = (make("one", CallerRole::Viewer), make("two", CallerRole::Admin));
        assert_eq!(one.token.len(), HEAD.len() + 64);
        let again = scratch.store();
        let holder = again.holder(&two.token, NOW).unwrap();
        assert_eq!((&*holder.name, holder.role), ("two", CallerRole::Admin));
        assert!(again.is_valid(&holder.hash, NOW));
        assert_eq!(again.holder(&one.token, NOW + DAY), None);
        again.revoke("two", NOW).unwrap();
        assert_eq!(again.holder(&two.token, NOW), None);
        assert!(!again.is_valid(&holder.hash, NOW));
        assert!(again.holder(&one.token, NOW).is_some());
        let states: Vec<_> = scratch.store().list(NOW + DAY).tokens;
        let states: Vec<_> = states.iter().map(|row| (&*row.name, &*row.state)).collect();
        assert_eq!(states, [("one", "expired"), ("two", "revoked")]);
        assert!(matches!(again.revoke("two", NOW), Err(TokenError::Unknown)));
    }

    #[test]
    fn what_differs_in_one_digit_is_another_token() {
        let scratch = Scratch::new("digit");
        let store = scratch.store();
        let made = store
            .create(wanted("a", CallerRole::Viewer, DAY), "uid:0", NOW)
            .unwrap();
        let last = if made.token.ends_with('0') { '1' } else { '0' };
        let other = format!("{}{last}", &made.token[..made.token.len() - 1]);
        for wrong in [
            other.as_str(),
            "",
            HEAD,
            &made.token.to_uppercase(),
            &made.token[1..],
        ] {
            assert_eq!(store.holder(wrong, NOW), None, "{wrong}");
        }
        // The file has nothing that could be presented.
        let file = fs::read_to_string(scratch.file()).unwrap();
        assert!(!file.contains(&made.token[HEAD.len()..]));
    }

    #[test]
    fn only_the_daemons_user_may_read_the_file() {
        let scratch = Scratch::new("mode");
        let store = scratch.store();
        store
            .create(wanted("a", CallerRole::Viewer, DAY), "uid:0", NOW)
            .unwrap();
        let mode = fs::metadata(scratch.file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        fs::set_permissions(scratch.file(), fs::Permissions::from_mode(0o640)).unwrap();
        let error = TokenStore::open(&scratch.file()).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("mode 0640"), "{error}");
    }

    #[test]
    fn what_cannot_be_stored_is_not_given() {
        let scratch = Scratch::new("full");
        let store = scratch.store();
        fs::create_dir_all(&scratch.0).unwrap();
        // A file in the place of its directory.
        fs::write(scratch.0.join("sub"), "").unwrap();
        let refused = store.create(wanted("a", CallerRole::Viewer, DAY), "uid:0", NOW);
        assert!(matches!(refused, Err(TokenError::Io(_))));
        assert!(store.list(NOW).tokens.is_empty());
    }

    #[test]
    fn names_and_lives_have_bounds() {
        let scratch = Scratch::new("bounds");
        let store = scratch.store();
        let make = |name: &str, life| store.create(wanted(name, CallerRole::Viewer, life), "uid:0", NOW);
        let long = "a".repeat(65);
        for name in ["", "a b", "a/b", "\u{e4}", long.as_str()] {
            assert!(matches!(make(name, DAY), Err(TokenError::BadName)), "{name}");
        }
        assert!(matches!(make("a", Duration::ZERO), Err(TokenError::BadLife)));
        assert!(matches!(make("a", LONGEST_LIFE + DAY), Err(TokenError::BadLife)));
        make("a", DAY).unwrap();
        assert!(matches!(make("a", DAY), Err(TokenError::Taken)));
        store.revoke("a", NOW).unwrap();
        make("a", DAY).unwrap();
        assert_eq!(store.list(NOW).tokens.len(), 1);
    }

    #[test]
    fn uses_are_stored_now_and_then() {
        let scratch = Scratch::new("uses");
        let store = scratch.store();
        let made = store
            .create(wanted("a", CallerRole::Viewer, DAY), "uid:0", NOW)
            .unwrap();
        store.holder(&made.token, NOW + Duration::from_secs(5));
        let used = || scratch.store().list(NOW).tokens[0].last_used.clone();
        store.store_uses(NOW + Duration::from_secs(6)).unwrap();
        assert_eq!(used(), None);
        store.store_uses(NOW + Duration::from_secs(65)).unwrap();
        assert_eq!(used().as_deref(), Some("1970-01-01T00:00:05Z"));
    }
}
