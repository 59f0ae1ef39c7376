"""The official OpenAI client against the mesh: list, complete, chat, stream, tool loop, errors, second turn."""
import asyncio

import openai
import pytest

from conftest import TIDE_TOOL, long_chat


def test_models_are_listed_and_found_by_id(client, model):
    assert model
    assert client.models.retrieve(model).id == model


def test_chat_answers(client, model):
    answer = client.chat.completions.create(model=model, messages=long_chat("Which berth is free?"), max_tokens=16)
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.usage.completion_tokens == 16


def test_chat_streams(client, model):
    pieces, usage, ids = [], None, set()
    with client.chat.completions.create(
        model=model, messages=long_chat("Tell me about the tide."), max_tokens=24, stream=True,
        stream_options={"include_usage": True},
    ) as stream:
        for chunk in stream:
            ids.add(chunk.id)
            if chunk.choices and chunk.choices[0].delta.content:
                pieces.append(chunk.choices[0].delta.content)
            usage = chunk.usage or usage
    assert len(pieces) > 1 and "".join(pieces)
    assert len(ids) == 1
    assert usage.completion_tokens == 24


def test_completion_answers(client, model):
    answer = client.completions.create(model=model, prompt="The tide at the old pier", max_tokens=8)
    assert answer.object == "text_completion"
    assert answer.choices[0].text
    assert answer.usage.completion_tokens == 8


def test_completion_streams(client, model):
    chunks = list(client.completions.create(model=model, prompt="The wind at noon", max_tokens=8, stream=True))
    assert "".join(c.choices[0].text for c in chunks if c.choices)


def test_many_prompts_keep_their_order(client, model):
    answer = client.completions.create(model=model, prompt=["One boat", "Two boats", "Three boats"], max_tokens=4, n=1)
    assert [c.index for c in answer.choices] == [0, 1, 2]
    assert answer.usage.completion_tokens == 12


def test_second_turn_hits_the_cache_of_the_same_worker(client, model):
    messages = long_chat("Which berth is free tonight?")
    first = client.chat.completions.with_raw_response.create(model=model, messages=messages, max_tokens=16)
    worker = first.headers["x-kvmesh-worker"]
    messages.append({"role": "assistant", "content": first.parse().choices[0].message.content})
    messages.append({"role": "user", "content": "And tomorrow?"})
    second = client.chat.completions.with_raw_response.create(model=model, messages=messages, max_tokens=16)
    assert second.headers["x-kvmesh-worker"] == worker
    cached = second.parse().usage.prompt_tokens_details.cached_tokens
    assert cached > 0
    assert int(second.headers["x-kvmesh-predicted-hit-tokens"]) > 0


def test_tool_loop(client, model):
    messages = [{"role": "user", "content": "How high is the water in Brest?"}]
    answer = client.chat.completions.create(model=model, messages=messages, tools=[TIDE_TOOL], tool_choice="required")
    call = answer.choices[0].message.tool_calls[0]
    assert call.function.name == "lookup_tide"
    messages.append(answer.choices[0].message.model_dump(exclude_none=True))
    messages.append({"role": "tool", "tool_call_id": call.id, "name": "lookup_tide", "content": "2.4 m"})
    answer = client.chat.completions.create(model=model, messages=messages, tools=[TIDE_TOOL], max_tokens=8)
    assert answer.choices[0].message.content


def test_async_calls_run_side_by_side(async_client, model):
    async def run():
        async with async_client:
            calls = [async_client.chat.completions.create(
                model=model, messages=long_chat(f"Question {i}"), max_tokens=4) for i in range(8)]
            return await asyncio.gather(*calls)

    assert all(a.usage.completion_tokens == 4 for a in asyncio.run(run()))


def test_unknown_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as error:
        client.chat.completions.create(model="no/such-model", messages=[{"role": "user", "content": "x"}])
    assert error.value.body["param"] == "model"


def test_wrong_request_is_refused(client, model):
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model=model, messages="not a list")
