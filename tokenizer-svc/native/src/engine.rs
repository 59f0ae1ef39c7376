//! The two engines behind one type.

use crate::UnifiedTokenizer;
use fastokens::{AddedTokenConfig, Tokenizer as Fast};
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;
use tokenizers::tokenizer::Tokenizer as Reference;

type FxMap<K, V> = HashMap<K, V, BuildHasherDefault<rustc_hash::FxHasher>>;
type Failure = Box<dyn std::error::Error>;

/// What a tiktoken ranks file lacks: the split pattern, by name or as it is, and the added tokens with their ids.
#[derive(Deserialize)]
struct TiktokenSpec {
    pattern: String,
    added_tokens: Vec<AddedTokenConfig>,
}

impl TiktokenSpec {
    fn pattern(&self) -> &str {
        match self.pattern.as_str() {
            "kimi" => fastokens::KIMI_PATTERN,
            "cl100k_base" => fastokens::CL100K_BASE_PATTERN,
            "o200k_base" => fastokens::O200K_BASE_PATTERN,
            other => other,
        }
    }
}

/// Loads a tokenizer.json into daulet's own type, so that its functions work on the same handle.
pub fn load_reference(json: &[u8]) -> Result<UnifiedTokenizer, Failure> {
    let tokenizer = Reference::from_bytes(json).map_err(|e| e.to_string())?;
    Ok(UnifiedTokenizer::HuggingFace(tokenizer))
}

pub fn load_fast(json: &[u8]) -> Result<Fast, Failure> {
    Ok(Fast::from_json(serde_json::from_slice(json)?)?)
}

pub fn load_reference_tiktoken(ranks: &[u8], spec: &[u8]) -> Result<UnifiedTokenizer, Failure> {
    let spec: TiktokenSpec = serde_json::from_slice(spec)?;
    let ranks = fastokens::tiktoken::parse_tiktoken_model(std::str::from_utf8(ranks)?)?;
    let top = ranks.iter().map(|r| r.1).chain(spec.added_tokens.iter().map(|t| t.id)).max();
    let encoder: FxMap<Vec<u8>, u32> = ranks.into_iter().collect();
    let added: FxMap<String, u32> = spec.added_tokens.iter().map(|t| (t.content.clone(), t.id)).collect();
    let names: HashSet<String> = added.keys().cloned().collect();
    let special: HashSet<u32> = spec.added_tokens.iter().filter(|t| t.special).map(|t| t.id).collect();
    let bpe = tiktoken_rs::CoreBPE::new(encoder, added, spec.pattern())?;
    Ok(UnifiedTokenizer::Tiktoken(bpe, top.map_or(0, |t| t + 1), names, special))
}

pub fn load_fast_tiktoken(ranks: &[u8], spec: &[u8]) -> Result<Fast, Failure> {
    let spec: TiktokenSpec = serde_json::from_slice(spec)?;
    let ranks = fastokens::tiktoken::parse_tiktoken_model(std::str::from_utf8(ranks)?)?;
    Ok(Fast::from_tiktoken_ranks_with_added_tokens(&ranks, spec.pattern(), &spec.added_tokens)?)
}

/// Encodes with the reference. A tiktoken model recognises its added tokens always, as its Python class does.
pub fn encode_reference(t: &UnifiedTokenizer, text: &str, add_special: bool) -> Result<Vec<u32>, Failure> {
    match t {
        UnifiedTokenizer::HuggingFace(hf) => {
            let encoding = hf.encode_fast(text, add_special).map_err(|e| e.to_string())?;
            Ok(encoding.get_ids().to_vec())
        }
        UnifiedTokenizer::Tiktoken(..) => t.encode(text, true),
    }
}

/// Decodes without the NUL cut of the binding's own function; ids outside the vocabulary are skipped, as in Python.
pub fn decode_reference(t: &UnifiedTokenizer, ids: &[u32], skip_special: bool) -> Result<String, Failure> {
    match t {
        UnifiedTokenizer::HuggingFace(hf) => Ok(hf.decode(ids, skip_special).map_err(|e| e.to_string())?),
        UnifiedTokenizer::Tiktoken(bpe, _, _, special) => {
            let kept = ids.iter().filter(|id| !skip_special || !special.contains(id));
            let bytes: Vec<u8> = kept.flat_map(|id| token_bytes(bpe, *id)).collect();
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
    }
}

/// The crate offers one token's bytes only through a function that panics for an id it does not know.
fn token_bytes(bpe: &tiktoken_rs::CoreBPE, id: u32) -> Vec<u8> {
    let lookup = || bpe._decode_native_and_split(vec![id]).next();
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(lookup)).ok().flatten().unwrap_or_default()
}
