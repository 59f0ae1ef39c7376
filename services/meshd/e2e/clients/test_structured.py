"""Structured outputs and streamed tool calls with the official OpenAI client."""
import json

import openai
import pytest
from pydantic import BaseModel

from conftest import TIDE_TOOL, long_chat


class Reading(BaseModel):
    harbour: str
    metres: int
    rising: bool


SCHEMA = {
    "type": "object", "additionalProperties": False, "required": ["harbour", "metres"],
    "properties": {"harbour": {"type": "string"}, "metres": {"type": "integer"}},
}


def test_json_schema_shapes_the_answer(client, model):
    answer = client.chat.completions.create(
        model=model, messages=long_chat("How high is the water?"), max_tokens=256,
        response_format={"type": "json_schema", "json_schema": {"name": "reading", "strict": True, "schema": SCHEMA}})
    read = json.loads(answer.choices[0].message.content)
    assert set(read) == {"harbour", "metres"}
    assert isinstance(read["harbour"], str) and isinstance(read["metres"], int)


def test_json_object_is_an_object(client, model):
    answer = client.chat.completions.create(
        model=model, messages=long_chat("How high is the water, as JSON?"), max_tokens=256,
        response_format={"type": "json_object"})
    assert isinstance(json.loads(answer.choices[0].message.content), dict)


def test_parse_gives_the_class(client, model):
    answer = client.chat.completions.parse(
        model=model, messages=long_chat("How high is the water?"), max_tokens=256, response_format=Reading)
    assert isinstance(answer.choices[0].message.parsed, Reading)


def test_streamed_parse_gives_the_class(client, model):
    with client.chat.completions.stream(
        model=model, messages=long_chat("How high is the water?"), max_tokens=256, response_format=Reading,
    ) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert "content.delta" in kinds and "content.done" in kinds
    assert isinstance(final.choices[0].message.parsed, Reading)


def test_a_schema_format_without_schema_is_refused(client, model):
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(
            model=model, messages=long_chat("How high?"), response_format={"type": "json_schema"})


def test_tool_call_streams(client, model):
    name, arguments, ids, finish = "", "", set(), None
    with client.chat.completions.create(
        model=model, messages=long_chat("How high is the water in Brest?"), tools=[TIDE_TOOL],
        tool_choice="required", max_tokens=256, stream=True,
    ) as stream:
        for chunk in stream:
            for choice in chunk.choices:
                finish = choice.finish_reason or finish
                for call in choice.delta.tool_calls or []:
                    assert call.index == 0
                    ids |= {call.id} if call.id else set()
                    name += call.function.name or ""
                    arguments += call.function.arguments or ""
    assert name == "lookup_tide"
    assert "harbour" in json.loads(arguments)
    assert len(ids) == 1
    assert finish in ("tool_calls", "stop")


def test_named_tool_is_called(client, model):
    answer = client.chat.completions.create(
        model=model, messages=long_chat("How high is the water in Brest?"), tools=[TIDE_TOOL], max_tokens=256,
        tool_choice={"type": "function", "function": {"name": "lookup_tide"}})
    assert "harbour" in json.loads(answer.choices[0].message.tool_calls[0].function.arguments)
