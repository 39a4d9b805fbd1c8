//! Forms of values in JSON, for `#[serde(with)]`.

/// A SEID: a text in hexadecimal, since readers of JSON round numbers of 64 bits.
pub(crate) mod seid {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use std::borrow::Cow;

    pub(crate) fn serialize<S: Serializer>(seid: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = *b"0x0000000000000000";
        for (place, digit) in text.iter_mut().skip(2).enumerate() {
            let nibble = (seid >> (60 - 4 * place)) & 0xf;
            *digit = b"0123456789abcdef"[nibble as usize];
        }
        // Digits are ASCII.
        serializer.serialize_str(std::str::from_utf8(&text).unwrap_or_default())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 16);
        let value = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        value.ok_or_else(|| D::Error::custom(format_args!("`{text}` is no SEID")))
    }
}

/// An S-NSSAI: `sst`, a number, and `sd`, six hexadecimal digits, if there is one.
pub(crate) mod s_nssai {
    use rules::model::SNssai;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Form {
        sst: u8,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        sd: Option<String>,
    }

    pub(crate) fn serialize<S: Serializer>(slice: &Option<SNssai>, serializer: S) -> Result<S::Ok, S::Error> {
        let form = slice.map(|slice| Form {
            sst: slice.sst,
            sd: slice
                .differentiator()
                .map(|[a, b, c]| format!("{a:02x}{b:02x}{c:02x}")),
        });
        form.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SNssai>, D::Error> {
        let Some(Form { sst, sd }) = Option::deserialize(deserializer)? else {
            return Ok(None);
        };
        let Some(text) = sd else {
            let sd = SNssai::NO_SD;
            return Ok(Some(SNssai { sst, sd }));
        };
        let number = Some(&text).filter(|text| text.len() == 6);
        let number = number.and_then(|text| u32::from_str_radix(text, 16).ok());
        let number = number.ok_or_else(|| D::Error::custom(format_args!("`{text}` is no SD")))?;
        let [_, a, b, c] = number.to_be_bytes();
        Ok(Some(SNssai { sst, sd: [a, b, c] }))
    }
}
