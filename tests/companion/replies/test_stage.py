"""Replies: composed prompts, rules always applied, nothing said that may not be, an answer in any case."""

from __future__ import annotations

import time
from typing import get_args

import pytest

from clew.core.errors import ModelFailed
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.execution.pipeline import context_of, run_stages
from clew.runtime.execution.start import StartedTurn, TurnRequest, start_turn
from clew.runtime.memory import Candidate, memory_of
from clew.runtime.model.protocol import ModelRequest, Reply, TextChunk
from clew.runtime.records.events import TextDelta
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.inputs import user_items, validate_inputs
from clew.runtime.turn.draft import Delta
from clew.runtime.turn.turn import Turn
from clew.testing.clock import Clock
from clew.testing.scripted_model import ScriptedModel
from clew_companion.replies.filter import ReplyFilter, is_fit
from clew_companion.replies.prompt import prompt_source
from clew_companion.replies.style import choose_style
from clew_companion.state import CompanionState
from clew_companion.turn_end import STYLE_TYPES
from clew_companion.values import AgentOutput, Approach, ResponseStyle
from tests.companion.scripted_companion import ScriptedControlModel, Talk, talker

STYLES = [style for style in get_args(ResponseStyle) if style]
UNFIT = [
    "You clearly have depression.",
    "You might have ADHD.",
    "What you describe sounds like an anxiety disorder.",
    "This is classic PTSD.",
    "You are clinically depressed.",
    "I would diagnose this as burnout.",
    "You should stop taking your medication.",
    "I suggest you double your dose.",
    "As a therapist, I see this a lot.",
    "I am a real person.",
    "Call 988 now.",
    "You can reach them at +1 (800) 273-8255.",
]
FIT = [
    "You say that you are depressed about your job.",
    "Many people with depression tell of mornings like that.",
    "It sounds heavy.",
    "You have been stressed for a while.",
    "Have you taken your medication as your doctor said?",
    "I am not a therapist.",
    "That was in 2019, about 1,500 days ago.",
    "You are sad, and that makes sense.",
]

CONTACTS = """\
The hotline is 116 123.
Lifeline: 13 11 14.
You can reach them on 988.
Appelle le 3114.
SAMU : 15.
Llama al 024.
Bel 113.
Visit www.fakehelp.org.
Go to samaritans.org for more.
Write to jo@samaritans.org.
fakehelp dot org can help.
Message @crisishelp on Telegram.
See t.me/help or samaritans (dot) org.
Dial triple zero.
Text HOME to 741741.
**988** is there for you, 24/7.
Call 1-800-273-TALK.
The number is nine eight eight.
Nine. Eight. Eight.
9. 8. 8.
Dial 9-9-9.
Lifeline is thirteen eleven fourteen.
The number is 1 1 6, 1 2 3.
Ruf die 0800 111 0 111 an.
Ruf eins eins zwei.
Wähl die einhundertzwölf.
Die Nummer ist 142.
Llama al cero dos cuatro.
Le 3114, c'est gratuit.
Appelle le trente et un quatorze.
Puoi chiamare lo 02 2327 2327.
Bel gratis 0800-0113.
Zadzwoń pod 116 123.
dziewięć osiem osiem
Ligue para o 188.
Acil durumda 155'i ara.
İntihar hattı 182.
It is 1737.
It's 212.555.0147.
In Ireland that would be 50808.
Try 741-741, it is free.
The police number is 100.
The helpline is 1926.
You could try 1-800-NOT-REAL.
Die 147 ist für dich da.
Unter 142 hört dir jemand zu.
Le 31 14 est gratuit.
C'è il 1522, sempre aperto.
Via 1813 hoor je iemand.
O 188 atende sempre.
Bunun için 183 var.
Rufnummer 1 4 7
Look at mindhelp.care.
Go to findahelpline.co and see.
SAMARITANS.ORG is where to look.
mindhelp dot care
Call 988 day or night.
Text SHOUT to 85258 day or night, it is free.
Call 5550199 day or night.
You can reach somebody there on 1737 day and night.
Ruf 1738 Tag und Nacht an.
Unter 142 Tag und Nacht.
Appelle le 1738 jour et nuit.
Llama al 1738 día y noche.
Chiama il 1738 giorno e notte.
Bel 1738 dag en nacht.
Ligue para o 1738 dia e noite.
Zadzwoń pod 1738 dzień i noc.
1738 gece gündüz açık.
Text HOME to 741741 message and data rates may apply.
Text 85258 people will answer.
Call them in 1738.
Text from 1234.
Get support from 1737, any time.""".splitlines()
ORDINARY = """\
Breathe in for 4, hold for 4, and out for 4.
Try the 5-4-3-2-1 exercise, or 4-7-8 breathing.
Box breathing is 4-4-4-4.
It was 2 a.m. when you called her.
In 2019 you moved.
From 2019-2021 you lived there.
It takes about 30 minutes.
You cannot be there 24/7.
On a scale from 1 to 10, how heavy is it?
A year has 365 days.
You called your mother 300 times.
Du bist 10.000 Schritte gegangen.
Tu as fait 10 000 pas, à 18h30.
Count: 10, 9, 8, 7, 6, 5, 4, 3, 2, 1.
Five, four, three, two, one.
Call a friend in 15 minutes.
Ruf sie um 15 Uhr an.
Zeg het als je om 10 uur wilt bellen.
Would you call a crisis line?
On 12.03.2019 it began.
Your rent is $1200 a month.
Respira durante 4 segundos.
Conta fino a 10.
Policz do 10.
Conte até 10.
10'a kadar say.
At this point in time, what helps?
Desde tu punto de vista, y de ton point de vue.
Well...it is hard.
You can call it 50-50.
Rate it: 0-10.
Count back from 100 in sevens: 100, 93, 86.
Your score went from 120 to 150.
You got 92 of 120.
It went 3-2 for your team.
Your blood pressure was 140/90, at 120 bpm.
Temperature 37.5 is fine, and the bus came at 7.45.
Your doctor wrote 20 mg, and 125 mg later.
In 1848 she left, you said; the 1990s were like that.
On 3 March 2021 you said you would call.
Call her at 10, or at 7.45.
They owe you 300.
Breathe in 4-2-6-2, or try the 20-20-20 rule.
1. Sit down. 2. Breathe out. 3. Look around.
Deine Miete ist 850 Euro.
De 120 a 150 es mucho.
W 2012 roku wszystko się zmieniło.
Hm.That is e.g. a poem.
You lost contact in 2019, and that was a long time ago.
It took you 300 days and nights to call her.
You were up day and night for 10 days.
From 1998 on you lived there.
Pick a number, 1 to 10, or a number close to 10.""".splitlines()


UNFIT_OTHERWISE = """\
You're suffering from depression.
It seems you have depression.
I think you have ADHD.
Sounds like depression to me.
These are symptoms of depression.
You show signs of PTSD.
I believe this is bipolar disorder.
You may be dealing with depression.
That could be depression.
This might be ADHD.
You're probably bipolar.
You definitely have an eating disorder.
What you have is OCD.
It could well be a panic disorder.
You likely have generalized anxiety disorder.
Your symptoms match depression.
You meet the criteria for depression.
My diagnosis is burnout.
You have clinical depression.
You're experiencing major depression.
You have been suffering from PTSD for years.
You should take 20 mg of sertraline.
Try taking an antidepressant.
You can safely stop your meds.
Stop taking your pills.
Skip your dose tonight.
Double the dose.
Take two of your pills.
It is fine to stop your medication.
I'd suggest lowering your dose.
You don't need your medication.
As your doctor, I say rest.
I'm a licensed therapist.
Speaking as a psychologist, this is common.
I'm human, just like you.
I am not a bot.
I am a real human being.
I'm not a program.
I'd say you have borderline personality disorder.
To me, it looks like PTSD.
Honestly, you might be autistic.
What you feel is depression.
Your mood swings suggest bipolar disorder.
You could have an anxiety disorder.
That is a panic disorder.
It may be a sign of psychosis.
You have all the symptoms of ADHD.
Maybe you should try sertraline.
Rest, and stop your pills.
Perhaps increase your dosage a little.
You no longer need those tablets.
Consider taking lithium.
I would recommend starting an antidepressant.
Please halve your dose.
I'm your psychiatrist tonight.
As a trained counselor I hear this often.
I am not a robot.
You have **depression**.
You clearly have *PTSD*.
You have _depression_.
You should stop taking your **pills**.
I am a **real person**.
You have ADD.
It could be ADD, like your brother.
I'm a licensed clinical psychologist.
I'm an experienced therapist.
I'm actually a doctor.
I am a psychotherapist.
As a licensed clinical psychologist, I see this a lot.
Stopping your meds would help.
Perhaps stopping the pills is the way.
Keep skipping your dose.
2. Stop taking your pills.""".splitlines()
FIT_OTHERWISE = """\
You have told me about your depression before.
You said the doctor named it depression.
Have you talked with somebody about whether it could be depression?
Only a doctor can tell whether that is depression.
I cannot say whether this is depression.
Depression can feel like that.
You are not depressed for no reason.
If you take medication, please ask your doctor before you change anything.
Please do not stop your medication without your doctor.
Did you take your pills today?
I am not a human.
I am a program and not a person.
I'm here with you.
As a friend would say, rest.
It sounds like your doctor treats depression.
Take two deep breaths.
Stop for a moment.
You could ask your doctor about the dose.
That sounds like a lot of stress.
People with ADHD tell of this too.
You sleep badly, take your tablets, and still feel tired.
You told me that you take your medication at night.
Your doctor said that you have depression, and that was hard to hear.
Your sister has depression.
You lost your father, and that is grief.
You are worried that you have ADHD.
Your doctor can tell you more about depression.
You have a lot on your plate, like anybody with a new job.
It can be like that with grief.
It is like walking through mud.
You have been so strong.
That is a lot of things to deal with.
Some people find that medication helps.
You stopped your medication last week, you said.
Your doctor may want to lower the dose.
I am not a doctor.
I am only a program.
As a parent I would not know.
You are a person who cares.
You are human.
I'm no therapist.
What would a therapist say?
A counsellor could help with this.
That takes time.
Start with one small thing.
You can add one small thing.
You could also add a walk.
It may well add up.
These can add up.
You add so much to their lives.
You can address that with her.
Stopping your meds suddenly can be risky.
Stopping your meds is best talked over with your doctor.
Starting medication can feel scary.
Honestly, stopping your meds all at once can be risky.
Keep taking your tablets as prescribed.
Please keep taking your medication until you have talked with your doctor.
How long have you had depression?
You mentioned that you have PTSD.
You told me you have depression.
You shared that you have been living with PTSD.
You shared with me that you have ADHD.
Your doctor told you that you have depression.
I'm glad your doctor listened.
I'm a program, no licensed therapist.
I am not a licensed clinical psychologist.""".splitlines()
UNFIT_ELSEWHERE = """\
Du hast eindeutig eine Depression.
Das klingt nach einer Angststörung.
Sie leiden an einer bipolaren Störung.
Du bist depressiv.
Tienes una depresión.
Eso parece un trastorno de ansiedad.
Usted tiene TDAH.
Tu as une dépression.
Tu souffres d'un trouble anxieux.
C'est une dépression.
Hai la depressione.
Questo sembra un disturbo d'ansia.
Soffri di depressione.
Je hebt een depressie.
Dat klinkt als een angststoornis.
Je lijdt aan PTSS.
Masz depresję.
Cierpisz na zaburzenia lękowe.
To wygląda na depresję.
Você tem depressão.
Isso parece um transtorno de ansiedade.
Tens uma depressão.
Sende depresyon var.
Bu bir anksiyete bozukluğu.
Depresyonun var.
Depresyondasın.
Setz deine Tabletten ab.
Du solltest deine Medikamente absetzen.
Nimm 20 mg mehr.
Deja de tomar tus pastillas.
Deberías dejar la medicación.
Arrête tes médicaments.
Tu devrais arrêter de prendre tes médicaments.
Smetti di prendere le pillole.
Dovresti ridurre la dose.
Stop met je medicijnen.
Je kunt stoppen met je medicatie.
Przestań brać leki.
Powinieneś odstawić leki.
Pare de tomar seus remédios.
İlaçlarını bırak.
Ilaçlarını bırakmalısın.
Als Therapeutin sehe ich das oft.
Ich bin dein Therapeut.
Ich bin ein echter Mensch.
Soy tu terapeuta.
Como tu psicólogo, lo veo a menudo.
Je suis ton thérapeute.
Je suis une vraie personne.
En tant que thérapeute, je le vois.
Sono il tuo terapeuta.
Come tuo terapeuta, lo vedo.
Ik ben je therapeut.
Ik ben een mens.
Jestem twoim terapeutą.
Jestem człowiekiem.
Jako terapeuta widzę to często.
Sou seu terapeuta.
Sou uma pessoa.
Ben senin terapistinim.
Ben bir insanım.
Du hast **ADHS**.
Du hast _ADHS_.
Setz deine **Tabletten** ab.
Je suis psychologue.
Je suis médecin, crois-moi.
Je suis psychiatre.
Ich bin Psychologin.
Ich bin Therapeut und sehe das oft.
Ich bin Psychotherapeutin.
Ich bin selbst Ärztin.
Ik ben psycholoog.
Ik ben arts.
Ik ben dokter.
Sono psicologa.
Sono uno psicologo.
Sono un medico.
Soy psicóloga.
Soy psiquiatra.
Jestem psychologiem.
Sou médica.
Ben psikoloğum.
Ben doktorum.
Du solltest deine Medikamente nicht mehr nehmen.
Deberías tomar estas pastillas.
No deberías tomar tus pastillas.
Não tome seus remédios.
Ne prends pas tes médicaments.""".splitlines()
FIT_ELSEWHERE = """\
Ich bin kein Therapeut.
Ich bin ein Programm, kein Mensch.
Viele Menschen mit einer Depression kennen das.
Du hast erzählt, dass deine Mutter Depressionen hat.
Hast du deine Medikamente so genommen, wie die Ärztin sagt?
Sprich mit deinem Arzt über deine Tabletten.
Du kannst deine Ärztin nach den Tabletten fragen.
Das ist schwer, und du bist müde.
Du hast viel zu tun.
Nimm dir Zeit.
Als Kind warst du oft allein.
No soy terapeuta.
Soy un programa, no una persona.
Tienes mucho cansancio.
Hablar con tu médica sobre la medicación puede ayudar.
Toma tu tiempo.
Eso es mucho para una persona.
Je ne suis pas thérapeute.
Je suis un programme, pas une personne.
Tu as beaucoup de travail.
C'est lourd, et c'est normal.
Tu as dit que ta mère souffre de dépression.
Prends ton temps.
Non sono un terapeuta.
Sono un programma, non una persona.
Hai dormito poco, e sei stanco.
Prendi il tempo che ti serve.
Sei una persona attenta.
Ik ben geen therapeut.
Ik ben een programma, geen mens.
Je bent moe, en dat is logisch.
Neem de tijd.
Dat is veel voor één persoon.
Nie jestem terapeutą.
Jestem programem, nie człowiekiem.
Masz dużo na głowie.
Weź głęboki oddech.
Não sou terapeuta.
Sou um programa, não uma pessoa.
Você tem muito trabalho.
Isso é muito para uma pessoa.
Tome o tempo que precisar.
Ben bir programım, insan değilim.
Ben bir terapist değilim.
Bu çok ağır.
Derin bir nefes al.
İlaçların hakkında doktorunla konuş.
Stop met piekeren lukt niet altijd.
Your doctor may reduce the dose slowly.
A doctor can double a dose, and you can ask.
Muchos usan el arte como terapia.
El humor como medicina ayuda.
Das ist ein psychologisches Thema, und als psychologisches Thema bekannt.
Das ist pure Zerstörung.
Du kannst Pausen machen.
Puedes tomar un té.
Tu peux prendre une pause.
Je kunt een arts bellen over je medicatie.
Możesz porozmawiać z lekarzem o lekach.
Pode falar com a sua médica sobre a dose.
Als Mensch bist du müde.
Du bist nicht allein.
Je suis là pour toi.
Sono qui con te.
Estou aqui com você.
Você está triste hoje.
Tu es fatigué.
Estás triste, y tienes razón.
Ich bin nicht Therapeut.
Ich bin keine Psychologin.
Ich bin weder Arzt noch Therapeut.
Je ne suis pas psychologue.
Je suis pas médecin.
Ik ben geen psycholoog.
Non sono psicologa.
Non sono uno psicologo.
Sono medici, e ti possono aiutare.
Ci sono terapeute che ascoltano.
Ben psikolog değilim.
Du solltest deine Medikamente nicht absetzen, ohne zu fragen.
Setz deine Tabletten nicht einfach ab.
No dejes de tomar tus pastillas de golpe.
No deberías dejar la medicación sin preguntar.
N'arrête pas tes médicaments d'un coup.
Non dovresti smettere le medicine di colpo.
Nie powinieneś odstawić leków bez lekarza.
Não pare de tomar os remédios de repente.""".splitlines()


@pytest.mark.promise("A-09")
def test_there_are_eleven_styles_and_eight_approaches_each_with_its_source() -> None:
    approaches = get_args(Approach)

    assert (len(STYLES), len(approaches)) == (11, 8)
    assert all(prompt_source(f"styles/{style}") for style in STYLES)
    assert all(prompt_source(f"approaches/{approach}") for approach in approaches)
    assert STYLE_TYPES.keys() <= set(STYLES)


@pytest.mark.parametrize("sentence", UNFIT)
def test_what_may_not_be_said_is_known(sentence: str) -> None:
    assert not is_fit(sentence)


@pytest.mark.parametrize("sentence", FIT)
def test_what_may_be_said_is_left_alone(sentence: str) -> None:
    assert is_fit(sentence)


def test_what_may_not_be_said_is_known_in_other_words() -> None:
    assert [sentence for sentence in UNFIT_OTHERWISE if is_fit(sentence)] == []


def test_what_may_be_said_is_left_alone_in_words_that_are_alike() -> None:
    assert [sentence for sentence in FIT_OTHERWISE if not is_fit(sentence)] == []


def test_what_may_not_be_said_is_known_in_eight_other_languages() -> None:
    assert [sentence for sentence in UNFIT_ELSEWHERE if is_fit(sentence)] == []


def test_what_may_be_said_is_left_alone_in_eight_other_languages() -> None:
    assert [sentence for sentence in FIT_ELSEWHERE if not is_fit(sentence)] == []


@pytest.mark.parametrize("sentence", CONTACTS)
def test_a_number_to_call_and_an_address_may_not_be_said(sentence: str) -> None:
    assert not is_fit(sentence)


@pytest.mark.parametrize("sentence", ORDINARY)
def test_numbers_of_every_day_may_be_said(sentence: str) -> None:
    assert is_fit(sentence)


def test_a_long_run_of_figures_holds_nobody_up() -> None:
    began = time.perf_counter()

    assert not is_fit("1.000" * 1000)
    assert time.perf_counter() - began < 1


async def parts_of(model: ScriptedModel, ending: str = "") -> tuple[list[str], str]:
    """What a careful model streams, and its whole reply."""
    parts = [part async for part in ReplyFilter(model, ending=ending).stream(ModelRequest(messages=[]))]
    (reply,) = [part for part in parts if isinstance(part, Reply)]
    return [part.text for part in parts if isinstance(part, TextChunk)], reply.text


async def test_an_unfit_sentence_is_never_heard_not_even_in_pieces() -> None:
    model = ScriptedModel(["That is h", "ard. You have dep", "ression. What", " helps you?"])
    pieces, whole = await parts_of(model)

    assert whole == "That is hard. What helps you?"
    assert "".join(pieces) == whole


@pytest.mark.parametrize(
    "number", ["988.", "9. 8. 8.", "Nine. Eight. Eight.", "13\n11\n14.", "It is 142.", "www. fakehelp. org."]
)
@pytest.mark.parametrize("pieces", [1, 20])
async def test_a_number_is_never_heard_though_it_comes_in_pieces(number: str, pieces: int) -> None:
    text = f"That is hard. You could call a line. {number} What helps you?"
    _, whole = await parts_of(ScriptedModel(text, pieces=pieces))

    assert whole.startswith("That is hard. You could call a line.")
    assert not set("0123456789") & set(whole)
    assert not {"nine", "eight", "www"} & set(whole.lower().replace(".", "").split())


async def test_a_fit_reply_is_left_as_it_is() -> None:
    text = "First line.\n\n- one\n- two\n\nAnd you? Dr. Who says so…"
    pieces, whole = await parts_of(ScriptedModel(text, pieces=9))

    assert whole == "".join(pieces) == text
    assert len(pieces) > 3


async def test_a_reply_of_which_nothing_is_left_says_what_this_is() -> None:
    _, whole = await parts_of(ScriptedModel("You have depression."))

    assert "I am a program" in whole


async def test_an_unfit_reply_reaches_neither_listeners_nor_history(in_memory: Database) -> None:
    async with talker(
        in_memory, ScriptedControlModel("I hear you. You have depression. What helps?")
    ) as runtime:
        talk = Talk(runtime)
        events = await talk.events_of("I cannot get up in the mornings")
        (last,) = await (await talk.state()).history.tail(1)

    assert last.text == "I hear you. What helps?"
    assert "depression" not in "".join(event.text for event in events if isinstance(event, TextDelta))


@pytest.mark.promise("A-05")
async def test_rules_shape_every_reply_and_the_toggle_governs_only_what_is_recalled(db: Database) -> None:
    memory, model = memory_of(db, "s1", "alice"), ScriptedControlModel()
    await memory.learn(
        [
            Candidate(kind="rule", subject="manner", object="Keep answers short.", plain=True),
            Candidate(
                subject="sister", predicate="IS_CALLED", object="Ann", quote="My sister is called Ann."
            ),
        ]
    )
    async with talker(db, model) as runtime:
        talk = Talk(runtime)
        await talk.say("I argued with my sister")
        await memory.set_recall(on=False)
        await talk.say("I argued with my sister again")
    on, off = (request.instructions for request in model.requests)

    assert "- Keep answers short." in on
    assert "- Keep answers short." in off
    assert "You may bring these up" in on
    assert "Do not bring them up unless the user asks" in off


@pytest.mark.promise("A-04")
async def test_memory_is_structured_in_the_state_and_rendered_in_the_prompt(db: Database) -> None:
    model = ScriptedControlModel()
    fact = Candidate(
        category="relationship", predicate="WORRIES_ABOUT", object="work", quote="my boss is terrible"
    )
    await memory_of(db, "s1", "alice").learn([fact])
    async with talker(db, model) as runtime:
        await Talk(runtime).say("It is about work again today")

    assert '[relationship] User WORRIES_ABOUT work — "my boss is terrible"' in model.requests[-1].instructions


async def test_a_prompt_is_composed_of_who_it_is_rules_style_and_approach(in_memory: Database) -> None:
    model = ScriptedControlModel()
    async with talker(in_memory, model) as runtime:
        await Talk(runtime).say("My dog died yesterday and it hurts")
    instructions = model.requests[-1].instructions

    assert instructions.startswith(prompt_source("identity"))
    assert prompt_source("rules") in instructions
    assert prompt_source("styles/supportive") in instructions
    assert prompt_source("approaches/grief_support") in instructions


async def test_installed_skills_are_in_the_prompt(in_memory: Database) -> None:
    model = ScriptedControlModel()
    async with talker(in_memory, model, skills={"poems": "End with a line of a poem."}) as runtime:
        await runtime.run_turn("s1", {"message": "I like the sea a lot", "installed_skills": ["poems"]})

    assert "End with a line of a poem." in model.requests[-1].instructions


async def test_somebody_is_answered_though_the_model_fails(in_memory: Database) -> None:
    model = ScriptedControlModel(ModelFailed(model="m", problem="it is down"))
    async with talker(in_memory, model) as runtime:
        talk = Talk(runtime)
        output = await talk.say("I am worried about my exam")
        history = await (await talk.state()).history.all()

    assert output.diagnostics["reply_path"] == "offline_after_model_failure"
    assert "worry" in output.response_text
    assert [message.role for message in history] == ["user", "assistant"]


async def test_an_answer_that_was_given_is_not_asked_for_again_after_a_crash(db: Database) -> None:
    model, clock = ScriptedControlModel("Only once."), Clock()
    await crash_turn(talker(db, model, config=RuntimeConfig(clock=clock)), "I like the sea a lot")
    clock.advance(60_000)
    again = talker(db, model, config=RuntimeConfig(clock=clock))
    result = await again.resume("s1")
    history = await (await again.state("s1")).history.all()

    assert result.text == "Only once."
    assert len(model.requests) == 1
    assert [message.text for message in history] == ["I like the sea a lot", "Only once."]


class Crash(BaseException):
    """The process ends here."""


async def crash_turn(runtime: Runtime[CompanionState, AgentOutput], message: str) -> None:
    """A turn whose process dies when its answer is there, and before it is finished."""

    async def finalize_turn(state: CompanionState, ctx: Context) -> Delta:
        raise Crash

    settings = runtime._settings
    inputs = validate_inputs(settings.schema, message)
    request = TurnRequest(thread="s1", inputs=inputs, items=tuple(user_items(settings.schema, inputs)))
    turn_start = await start_turn(runtime._db, request, settings)
    assert isinstance(turn_start, StartedTurn)
    config = settings.config
    turn = Turn(
        turn_start.draft,
        turn_start.journal,
        config.retry_policy,
        lambda event: None,
        deadlines=config.deadlines,
    )
    with pytest.raises(Crash):
        await run_stages([*settings.stages[:-1], finalize_turn], context_of(turn, settings))


@pytest.mark.parametrize(
    ("message", "style", "approach"),
    [
        ("My grandmother died and I miss her", "supportive", "grief_support"),
        ("I keep thinking the same thing in circles", "reflective", "act"),
        ("What can I do about my anger?", "technique", "dbt_skills"),
        ("Why do people panic?", "psychoeducation", "pfa"),
        ("Part of me wants to quit and part of me doesn't", "reflective", "motivational_interviewing"),
        ("My husband and I had a fight about nothing", "reflective", "interpersonal_therapy"),
        ("Thanks, I have to go, talk tomorrow", "closing", "none"),
        ("dunno", "clarifying", "none"),
    ],
)
def test_style_and_approach_follow_from_what_is_said(message: str, style: str, approach: str) -> None:
    assert (choose_style(message).style, choose_style(message).approach) == (style, approach)


def test_a_message_without_a_topic_goes_on_with_the_last_one() -> None:
    assert choose_style("It was the same today as always", ["My dog died"]).approach == "grief_support"
