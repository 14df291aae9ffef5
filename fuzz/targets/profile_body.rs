//! Any bytes as the body of a `.pf` file whose header and checksum are right, so that the parser
//! behind them is reached. What is accepted must be written and read back the same.
use paralfetch::profile::{FormatError, decode, encode, seal};

pub fn check(body: &[u8]) {
    let Ok(profile) = decode(&seal(body)) else {
        return;
    };
    match encode(&profile) {
        Ok(file) => assert_eq!(decode(&file), Ok(profile)),
        // The same contents may deflate to more than the limit in the order in which we write them.
        Err(FormatError::TooLarge { .. }) => {}
        Err(error) => panic!("read, but cannot be written: {error}"),
    }
}
