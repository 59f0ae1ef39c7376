"""Embeddings and the responses API with the official OpenAI client, plain, streamed and asynchronous."""
import asyncio
import math

import openai
import pytest

from conftest import SYSTEM, long_chat, unique


def test_embeddings_keep_their_order(client, model):
    texts = ["a boat", "a pier", "a boat"]
    answer = client.embeddings.create(model=model, input=texts)
    assert [d.index for d in answer.data] == [0, 1, 2]
    assert answer.data[0].embedding == answer.data[2].embedding != answer.data[1].embedding
    assert math.isclose(sum(x * x for x in answer.data[0].embedding), 1.0, rel_tol=1e-3)
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 0


def test_embedding_encodings_agree(client, model):
    as_floats = client.embeddings.create(model=model, input="the old pier", encoding_format="float")
    as_base64 = client.embeddings.create(model=model, input="the old pier")
    assert as_base64.data[0].embedding == pytest.approx(as_floats.data[0].embedding, rel=1e-5)


def test_embedding_of_token_ids(client, model):
    answer = client.embeddings.create(model=model, input=[[5, 6, 7], [8, 9]])
    assert len(answer.data) == 2
    assert answer.usage.prompt_tokens == 5


def test_embeddings_of_an_unknown_model_are_not_found(client):
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="no/such-model", input="x")


def test_response_answers(client, model):
    answer = client.responses.create(
        model=model, instructions="Answer briefly.", input=unique("Which berth is free?"), max_output_tokens=12)
    assert answer.object == "response"
    assert answer.output_text
    assert answer.usage.output_tokens == 12
    assert answer.status == "incomplete" and answer.incomplete_details.reason == "max_output_tokens"


def test_response_streams(client, model):
    text, kinds, numbers, final = "", [], [], None
    with client.responses.create(
        model=model, input=unique("Tell me about the tide."), max_output_tokens=16, stream=True,
    ) as stream:
        for event in stream:
            kinds.append(event.type)
            numbers.append(event.sequence_number)
            if event.type == "response.output_text.delta":
                text += event.delta
            if event.type == "response.completed":
                final = event.response
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
    assert numbers == list(range(len(numbers)))
    assert text and final.output_text == text


def test_second_response_reads_the_cache_of_the_same_worker(client, model):
    turns = [{"role": "user", "content": "Which berth is free tonight?"}]
    ask = {"model": model, "instructions": unique(SYSTEM), "max_output_tokens": 8}
    first = client.responses.with_raw_response.create(input=turns, **ask)
    turns += [{"role": "assistant", "content": first.parse().output_text}, {"role": "user", "content": "And tomorrow?"}]
    second = client.responses.with_raw_response.create(input=turns, **ask)
    assert second.headers["x-kvmesh-worker"] == first.headers["x-kvmesh-worker"]
    assert int(second.headers["x-kvmesh-predicted-hit-tokens"]) > 0
    assert second.parse().usage.input_tokens_details.cached_tokens > 0


def test_async_stream(async_client, model):
    async def one(i):
        stream = await async_client.chat.completions.create(
            model=model, messages=long_chat(f"Question {i}"), max_tokens=6, stream=True,
            stream_options={"include_usage": True})
        return [chunk async for chunk in stream]

    async def run():
        async with async_client:
            return await asyncio.gather(*(one(i) for i in range(6)))

    runs = asyncio.run(run())
    assert len({chunks[0].id for chunks in runs}) == 6
    for chunks in runs:
        assert len({c.id for c in chunks}) == 1
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert chunks[-1].usage.completion_tokens == 6


def test_async_stream_left_early_frees_the_client(async_client, model):
    async def run():
        async with async_client:
            async with await async_client.chat.completions.create(
                model=model, messages=long_chat("A long story."), max_tokens=4000, stream=True,
                extra_body={"ignore_eos": True},
            ) as stream:
                async for chunk in stream:
                    if chunk.choices and chunk.choices[0].delta.content:
                        break
            after = await async_client.chat.completions.create(
                model=model, messages=long_chat("Still there?"), max_tokens=4)
            return after.usage.completion_tokens

    assert asyncio.run(run()) == 4
