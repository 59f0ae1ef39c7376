"""Anthropic's own client against /v1/messages: plain, streamed, counted, refused."""
import anthropic
import pytest

from conftest import SYSTEM, unique


@pytest.fixture()
def claude(url):
    with anthropic.Anthropic(base_url=url, api_key="any", max_retries=0, timeout=60) as made:
        yield made


def ask(question):
    return {"system": unique(SYSTEM), "messages": [{"role": "user", "content": question}]}


def test_message_answers(claude, model):
    answer = claude.messages.create(model=model, max_tokens=12, **ask("Which berth is free?"))
    assert answer.type == "message" and answer.role == "assistant"
    assert answer.content[0].type == "text" and answer.content[0].text
    assert answer.stop_reason == "max_tokens"
    assert answer.usage.output_tokens == 12


def test_message_streams(claude, model):
    with claude.messages.stream(model=model, max_tokens=16, **ask("Tell me about the tide.")) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text and final.content[0].text == text
    assert final.stop_reason == "max_tokens"
    assert final.usage.output_tokens == 16


def test_tokens_are_counted_as_they_are_used(claude, model):
    body = ask("Which berth is free?")
    counted = claude.messages.count_tokens(model=model, **body).input_tokens
    assert claude.messages.create(model=model, max_tokens=1, **body).usage.input_tokens == counted


def test_second_turn_reads_the_cache_of_the_same_worker(claude, model):
    body = ask("Which berth is free tonight?")
    first = claude.messages.with_raw_response.create(model=model, max_tokens=8, **body)
    body["messages"] += [
        {"role": "assistant", "content": first.parse().content[0].text}, {"role": "user", "content": "And tomorrow?"}]
    second = claude.messages.with_raw_response.create(model=model, max_tokens=8, **body)
    assert second.headers["x-kvmesh-worker"] == first.headers["x-kvmesh-worker"]
    assert int(second.headers["x-kvmesh-predicted-hit-tokens"]) > 0
    assert second.parse().usage.cache_read_input_tokens > 0


def test_equal_questions_under_unlike_systems_are_not_taken_for_one_conversation(claude, model):
    body = ask("Which berth is free tonight? " * 20)
    claude.messages.create(model=model, max_tokens=4, **body)
    body["system"] = unique(SYSTEM)
    other = claude.messages.with_raw_response.create(model=model, max_tokens=4, **body)
    assert other.headers["x-kvmesh-predicted-hit-tokens"] == "0"
    assert other.parse().usage.cache_read_input_tokens == 0


def test_unknown_model_is_not_found(claude):
    with pytest.raises(anthropic.NotFoundError) as error:
        claude.messages.create(model="no/such-model", max_tokens=4, messages=[{"role": "user", "content": "x"}])
    assert error.value.body["error"]["message"]
